// The steps that train and resume share: from a config and a run folder to a run that is ready to
// train, and the training itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "run/restart.h"

namespace lmtrain {

// Resolves the config on this machine, prepares the data and builds the run from where it stands.
RestartableRun make_run(Config& config, const RunFolder& run);
// The same for a run that begins, where what it is given must fit together; gives `run` its
// identity. The folder is not looked into. Error(kIo) when there is no room for a checkpoint, a
// warning when there is none for all of them.
RestartableRun make_new_run(Config& config, RunFolder& run);

// The part of the two functions above that the other processes do, where there are several: takes
// the run's config from it, resolves what depends on this process, and prepares or finds the data.
PreparedData prepare_as_told(Config& config);

// Takes the lock of the run folder, which is made if it is missing; from then on the log is also
// kept there.
RunLock lock_run(const RunFolder& run);

// Trains with the config already written to the run folder. The final status goes to stdout if
// `json`, or where that is no terminal. The exit code. An Error(kIo) says with which command the
// run goes on once its cause is removed.
int train_run(const RunFolder& run, RestartableRun& training, bool json);

// Goes on with the run in `folder`; `overrides` as typed after --set become part of its config.
int resume_run(const RunFolder& folder, const std::vector<std::string>& overrides, bool json);

// Where a branch begins; without a step at the newest valid checkpoint.
struct Branch {
  std::optional<int64_t> step;
  std::filesystem::path run_dir;
};
// Begins a new run from a checkpoint of the run in `folder`, which is only read. Where the process
// that trains that run removes the newest while it is copied, the newest one then is taken.
int branch_run(const RunFolder& folder, const Branch& branch,
               const std::vector<std::string>& overrides, bool json);

}  // namespace lmtrain
