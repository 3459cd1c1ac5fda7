// Leads from a command to a run: connects the processes of a command, makes a run from a config and
// a run folder, and trains it.
//
// If a launcher has started several processes (distributed/launcher.h), rank 0 does the command.
// The other ranks follow its orders (distributed/orders.h): they prepare data, and train. Only rank
// 0 calls the functions after joined_processes().
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "distributed/processes.h"
#include "training/restart.h"

namespace lmtrain {

// ---- The processes of a command ----

// Calls lead() in rank 0, or in the only process; other ranks follow the orders of rank 0. Returns
// the exit code of lead() in every process. An exception in one process passes through there, and
// ends the others by ProcessLost. Throws the errors of read_launch() and connect_processes().
int in_processes(const std::function<int()>& lead);
// Returns whether this process is rank 0, or alone. Throws Error(kUsage) as read_launch() does.
bool is_first_process();
// Returns whether in_processes() has thrown in a run of several processes. Its threads may then
// still run or hang, so the program must end without destructors (std::_Exit).
bool left_in_failure();
// Returns the processes that in_processes() has connected; before and after it, this process alone.
Processes& joined_processes();

// ---- A run from a config ----

// Resolves `config` in place for this machine, sends it to the other processes, prepares the data,
// and makes the choices that `config` leaves open. Throws the errors of:
//   require_preflight, for the stages kSettings and kDevice
//   resolve_runtime (training/resolve.h) and resolve_after_data (training/choices.h)
//   resolve_document_ends (prepare/given_tokenizer.h) and prepare_data (prepare/prepare.h)
//   require_memory (training/micro_batch_limits.h)
//   with several processes, require_alike (checkpoint/share_state.h) and the exchanges
PreparedData resolve_and_prepare(Config& config);
// Builds a new run, resolves `config`, and gives `run` its identity. Writes nothing into the
// folder, which need not be locked. First calls check_given_model() (checkpoint/given_model.h),
// then resolve_and_prepare(). Throws the errors of both, of require_preflight for the stage
// kNewRun, of read_forecast() (training/expected_loss.h) with a forecast, of weights_digest
// (checkpoint/given_model.h) with init_from, and of RestartableRun.
// Warns if the disk has no room for all checkpoints.
RestartableRun make_new_run(Config& config, RunFolder& run);

// Locks the run folder, and creates it if it is missing. From then on the log also goes to its
// train.log. Throws the errors of RunFolder::lock().
RunLock lock_run(const RunFolder& run);
// Trains and returns the exit code. The folder must be locked and hold the config. Prints the final
// status to stdout if `json`, or if stdout is no terminal. Throws the errors of
// RestartableRun::run(); the message of an Error(kIo) ends with the command that resumes the run.
int train_run(RestartableRun& training, bool json);

// Trains a run that is a part of another command, in this process, and returns the exit code. If
// the folder holds no run, begins one with `config`; else goes on with that run and its own config.
// Writes nothing to stdout. Throws the errors of lock_run, make_new_run, read_run_config,
// resolve_and_prepare, require_given_tokenizer (runlog/data_files.h) and RestartableRun.
int train_part(const RunFolder& folder, Config config);

// ---- A run that is there ----

// Locks the run in `folder`, resumes it, and returns the exit code. `overrides`, as typed after
// --set, become part of its config. `json` is as in train_run(). For a finished run whose text or
// tokenizer is gone, only prints the status and returns 0; it requires one process and no
// `overrides`. Throws Error(kUsage) if config.json cannot hold the path of the folder, and the
// errors of lock_run, changed_config, refuse_unlike_trials, finish_branch, require_given_tokenizer,
// resolve_and_prepare, RestartableRun and train_run.
int resume_run(const RunFolder& folder, const std::vector<std::string>& overrides, bool json);

// Tells where a branch begins.
struct Branch {
  std::optional<int64_t> step;    // of its checkpoint; nothing: the newest valid one
  std::filesystem::path run_dir;  // the new folder
};
// Begins a new run from a checkpoint of the run in `folder`, trains it, and returns the exit code.
// The old run is only read. If its process replaces the newest checkpoint during the copy, takes
// the then newest one. `overrides` and `json` are as in resume_run(); without a name in them the
// branch has the name of its folder. Throws Error(kConfig) for a change of `restart`, and the
// errors of require_new_run, checkpoint_of_branch, precision_of (device/device.h), copy_checkpoint
// and resume_run.
int branch_run(const RunFolder& folder, const Branch& branch,
               const std::vector<std::string>& overrides, bool json);

}  // namespace lmtrain
