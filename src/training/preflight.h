// Answers the question: may this run start? Finds the errors that keep a run from starting, and
// warns of allowed settings that are seldom meant.
//
// Each error and each warning is one function and one line of a list in preflight.cpp. A run throws
// its first error before it writes anything; `plan` lists all errors. `train`, its dry run,
// `resume` and `plan` print the warnings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "batching/batch_order.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "distributed/processes.h"
#include "prepare/prepare.h"
#include "training/plan.h"

namespace lmtrain {

// ---- Errors ----

// Holds the facts that the checks read. `data` and `run` may be null in stages that do not need
// them.
struct Preflight {
  const Config& config;
  int num_processes = 1;
  const PreparedData* data = nullptr;
  const RunFolder* run = nullptr;
};

// Says when a run makes a check: as soon as it has the facts.
enum class PreflightStage {
  kSettings,  // before anything is resolved
  kDevice,    // device, threads and precision are resolved
  kNewRun,    // everything is resolved, and the run is new; needs `run`
  kData,      // everything is resolved, for a new run and for one that goes on; needs `data`
  kPlanOnly,  // `plan` alone makes the check; a run finds the same error elsewhere
};

// Makes the checks of one stage, and throws the error of the first one that fails:
//   kSettings  Error(kConfig)  parallel.sum "exact" does not allow this number of processes
//   kSettings  Error(kUsage)   the path of eval.tasks does not exist
//   kSettings  the errors of require_prometheus_writable() (log.prometheus)
//   kDevice    Error(kConfig)  several processes divide the weights, and a setting forbids this
//   kNewRun    Error(kIo)      there is no room for one checkpoint
//   kData      Error(kConfig)  there is no held-out text, and a setting needs it
//   kData      the errors of SampleWriter and TaskProbe (log.samples, eval.tasks), and of
//              Tokenizer::load
void require_preflight(PreflightStage stage, const Preflight& preflight);

// Makes the checks of all stages for a new run, and returns the messages of all errors; empty if
// the run can begin. Needs `data` and `run`; `config` is resolved. It finds the errors of
// require_preflight(), require_new_run() and, of training/micro_batch_limits.h:
//   require_memory
//   require_memory_to_read, with init_from
//   require_longest_row, on a CPU
// and the errors of read_forecast() (training/expected_loss.h).
std::vector<std::string> preflight_errors(const Preflight& preflight);

// Throws Error(kUsage) if the folder is a model of transformers; if a run has begun in it too,
// throws the error of require_config_of_run (checkpoint/run_config.h).
void require_no_model(const RunFolder& run);
// Checks the folder of a new run, without config and data, and creates nothing. Throws the errors
// of require_no_model, and:
//   Error(kUsage)  the folder already holds a run, or checkpoints or trials of a run whose
//                  config.json is gone, or lies in the checkpoints or trials of another run
//   Error(kIo)     the folder, or the nearest existing one above it, cannot be written to
void require_new_run(const RunFolder& run);

// ---- Warnings ----

// Returns warnings of the settings of any run, in a fixed order; each names the settings to change.
// `config` is resolved. `order` is the run's order of data. `eval_targets` is the number of targets
// of an evaluation; nothing without held-out text.
std::vector<std::string> preflight_warnings(const Config& config, const BatchOrder& order,
                                            std::optional<int64_t> eval_targets);

// Tells where a run stands when it is resumed.
struct ResumePoint {
  int64_t step = 0;               // updates applied
  int64_t tokens = 0;             // targets of these updates
  std::optional<Pace> pace = {};  // of the last change of length that the run itself has made
};
// Returns warnings of a run that goes on with another config, `after` in place of `before`:
//   the next step's learning rate, as a fraction of its peak, rises by more than 5 %
//   the new length of the run is less than the run has already trained
// `order` is the order of data under `after`.
std::vector<std::string> resume_warnings(const Config& before, const Config& after,
                                         const BatchOrder& order, const ResumePoint& position);

// Returns warnings about the processes of a run: more threads than processors and, in rank 0, a
// train.max_time whose exit code makes torchrun start the run again. `config` is resolved.
std::vector<std::string> process_warnings(const Config& config, const Processes& processes);

// Returns a warning if a resume would need more host memory than rank 0 has: MemoryPlan::reading is
// more than `host` bytes. `config` is resolved. Nothing in `host`: no warning.
std::vector<std::string> resume_memory_warnings(const Config& config, std::optional<uint64_t> host,
                                                int num_processes);

// ---- The disk space of checkpoints ----

// Returns about the bytes of a checkpoint, rather too many. Here and below `config` is resolved.
uint64_t checkpoint_bytes(const Config& config);
// Call it when a run goes on from the checkpoint of `state`. Removes the checkpoints that `config`,
// which may have changed, does not keep (remove_old_checkpoints). Then throws Error(kIo) if the
// disk has no room for another one.
void make_room_for_checkpoint(const Config& config, const RunFolder& run,
                              const TrainingState& state);

// Estimates the disk space of a run's checkpoints from shapes and settings.
struct CheckpointRoom {
  uint64_t each = 0;               // bytes of one checkpoint
  std::optional<int64_t> at_once;  // most checkpoints at a time; nothing: time decides
  uint64_t available = 0;          // free bytes in `where`; UINT64_MAX: not known
  std::filesystem::path where;     // checkpoints/, or the nearest existing folder above it

  // Returns whether the checkpoints would fill up the disk.
  bool is_short() const { return at_once && each * static_cast<uint64_t>(*at_once) > available; }
};
CheckpointRoom checkpoint_room(const Config& config, const RunPlan& plan, const RunFolder& run);
// Returns "at most 4 at once of 1.2 GiB each, 3.1 GiB free in /runs", for people.
std::string describe_room(const CheckpointRoom& room);

}  // namespace lmtrain
