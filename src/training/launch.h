// Leads from a command to a run: several processes do one command together, a run is made from a
// config and a run folder, and it is trained.
//
// Of several processes that a launcher has started (distributed/launcher.h), rank 0 does the
// command. The other ranks do what rank 0 tells them (distributed/orders.h): they prepare data, and
// train. Only rank 0 calls the functions after joined_processes().
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

// Calls lead() where there is one process, and in rank 0 of several. Other ranks follow its orders.
// Returns the exit code of all. An exception in one process passes through there, and ends all
// others. Throws the errors of read_launch() and connect_processes().
int in_processes(const std::function<int()>& lead);
// Returns whether this process is alone, or the first of several. Throws Error(kUsage) as
// read_launch() does.
bool is_first_process();
// Returns whether in_processes() has thrown as one of several. Its threads may still run or hang
// then, so the program must end without destructors (std::_Exit).
bool left_in_failure();
// Returns the processes that in_processes() has connected; outside of it this process alone.
Processes& joined_processes();

// ---- A run from a config ----

// Resolves `config` in place for this machine, sends it to the other processes, and prepares the
// data. Throws the errors of:
//   require_preflight, for the stages kSettings and kDevice
//   resolve_runtime and resolve_vocab_size (training/resolve.h)
//   prepare_data (prepare/prepare.h)
//   with several processes, require_alike (distributed) and the exchanges
PreparedData resolve_and_prepare(Config& config);
// Builds a new run, and gives `run` its identity. It does not read the folder, which need not be
// locked. First checks the weights of init_from (checkpoint/given_model.h), then does
// resolve_and_prepare(). Throws the errors of both, of require_preflight for the stage kNewRun, and
// of RestartableRun. Warns if there is no room for all checkpoints.
RestartableRun make_new_run(Config& config, RunFolder& run);

// Locks the run folder, and creates it if it is missing. From then on the log is also kept there.
// Throws the errors of RunFolder::lock().
RunLock lock_run(const RunFolder& run);
// Trains and returns the exit code. The folder must be locked and hold the config. The final status
// goes to stdout if `json`, or if stdout is no terminal. The message of an Error(kIo) has the
// command by which the run goes on once its cause is removed.
int train_run(const RunFolder& run, RestartableRun& training, bool json);

// Trains a run that is a part of another command, in this process, and returns the exit code.
// Begins it with `config` where the folder holds none, else goes on with it. Writes nothing to
// stdout.
int train_part(const RunFolder& folder, Config config);

// ---- A run that is there ----

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
