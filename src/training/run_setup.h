// Does the steps that the commands train and resume share. It builds a run from a config and a run
// folder, and trains it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "training/restart.h"

namespace lmtrain {

// Resolves `config` in place for this machine, prepares the data, and builds the run from its
// folder, which must be locked. Warns of data files that have changed (runlog/data_files.h).
// Of several processes only rank 0 calls it. The others get the config from rank 0 and call
// prepare_as_told(). Throws the errors of:
//   resolve_runtime and resolve_vocab_size (training/resolve.h)
//   prepare_data (prepare/prepare.h) and RestartableRun
//   require_preflight; with several processes, require_alike (distributed) and the exchanges
RestartableRun make_run(Config& config, const RunFolder& run);
// Does the same for a new run, and gives `run` its identity. It does not read the folder, which
// need not be locked. First checks the weights of init_from (checkpoint/given_model.h). Throws
// Error(kIo) if there is no room for one checkpoint. Warns if there is no room for all checkpoints.
RestartableRun make_new_run(Config& config, RunFolder& run);

// Does the work that make_run() and make_new_run() share: resolves `config`, sends it to the other
// processes, and prepares the data.
PreparedData resolve_and_prepare(Config& config);

// Ranks after 0 call this first. On each machine one process prepares the data of `config`
// (Processes::prepares) and gets them returned; the others get nothing.
std::optional<PreparedData> prepare_for_machine(const Config& config);
// Ranks after 0 call this next. `config` is the one that rank 0 has sent; settings that depend on
// the process are resolved in it. Returns `prepared` if given. Otherwise prepares the data, or
// finds them where another process of this machine has prepared them.
PreparedData prepare_as_told(Config& config, std::optional<PreparedData> prepared);

// Locks the run folder, and creates it if it is missing. From then on the log is also kept there.
// Throws the errors of RunFolder::lock().
RunLock lock_run(const RunFolder& run);

// Trains and returns the exit code. The folder must be locked and hold the config. The final status
// goes to stdout if `json`, or if stdout is no terminal. The message of an Error(kIo) has the
// command by which the run goes on once its cause is removed.
int train_run(const RunFolder& run, RestartableRun& training, bool json);

// Locks the run in `folder`, resumes it and returns the exit code. `overrides`, as typed after
// --set, become part of its config.
int resume_run(const RunFolder& folder, const std::vector<std::string>& overrides, bool json);

// Tells where a branch begins.
struct Branch {
  std::optional<int64_t> step;    // of its checkpoint; nothing: the newest valid one
  std::filesystem::path run_dir;  // the new folder
};
// Begins a new run from a checkpoint of the run in `folder`, trains it and returns the exit code.
// The old run is only read. If its process removes the newest checkpoint during the copy, the next
// newest checkpoint is taken. Throws the errors of require_new_run.
int branch_run(const RunFolder& folder, const Branch& branch,
               const std::vector<std::string>& overrides, bool json);

}  // namespace lmtrain
