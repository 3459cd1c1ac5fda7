// Does the steps that train and resume share: makes a run that is ready to train from a config and
// a run folder, and trains it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "training/restart.h"

namespace lmtrain {

// Resolves `config` in place for this machine, prepares the data and builds the run from where it
// stands in its folder, which must be locked. Warns of files of the data that have changed
// (runlog/data_files.h). With several processes only the first calls it; the others get the
// config from it and call prepare_as_told(). Throws the errors of resolve_runtime and
// resolve_vocab_size (training/resolve.h), prepare_data (prepare/prepare.h) and RestartableRun; with
// several processes also those of check_processes and require_alike (run/shared) and of the
// exchanges.
RestartableRun make_run(Config& config, const RunFolder& run);
// Does the same for a run that begins, and gives `run` its identity. The folder is not looked into,
// and need not be locked. Checks the weights of init_from (checkpoint/given_model.h) first. Throws
// Error(kIo) when there is no room for one checkpoint, and warns when there is none for all of
// them.
RestartableRun make_new_run(Config& config, RunFolder& run);

// Does the part of these two functions that they share: resolves `config`, tells it to the other
// processes, prepares the data.
PreparedData resolve_and_prepare(Config& config);

// Does the part of the functions above that falls to the other processes, where there are
// several: first prepare_for_machine(). It prepares the data of `config` where this process is the
// one that does so on its machine (Processes::prepares), and returns the data; else nothing.
std::optional<PreparedData> prepare_for_machine(const Config& config);
// Then the rest. `config` is the one that the first has told them; what depends on the process is
// resolved in it. The data, unless they are `prepared`, are prepared, or found where another
// process of this machine has done so.
PreparedData prepare_as_told(Config& config, std::optional<PreparedData> prepared);

// Takes the lock of the run folder (RunFolder::lock(), with its errors), which is made if it is
// missing; from then on the log is also kept there.
RunLock lock_run(const RunFolder& run);

// Trains and returns the exit code. The folder must be locked and hold the config. The final status
// goes to stdout if `json`, or where stdout is no terminal. An Error(kIo) says with which command
// the run goes on once its cause is removed.
int train_run(const RunFolder& run, RestartableRun& training, bool json);

// Locks the run in `folder`, goes on with it and returns the exit code. `overrides`, as typed after
// --set, become part of its config.
int resume_run(const RunFolder& folder, const std::vector<std::string>& overrides, bool json);

// Tells at which step a branch begins, and in which new folder; without a step it begins at the
// newest valid checkpoint.
struct Branch {
  std::optional<int64_t> step;
  std::filesystem::path run_dir;
};
// Begins a new run from a checkpoint of the run in `folder`, which is only read, trains it and
// returns the exit code. Where the process that trains that run removes the newest checkpoint while
// it is copied, the one that is then the newest is taken. Throws the errors of require_new_run.
int branch_run(const RunFolder& folder, const Branch& branch,
               const std::vector<std::string>& overrides, bool json);

}  // namespace lmtrain
