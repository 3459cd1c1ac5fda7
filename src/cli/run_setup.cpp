#include "cli/run_setup.h"

#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/processors.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "checkpoint/branch.h"
#include "checkpoint/changed_settings.h"
#include "checkpoint/run_config.h"
#include "checkpoint/state.h"
#include "cli/group.h"
#include "cli/length_picture.h"
#include "device/device.h"
#include "formats/manifest.h"
#include "run/copy_checkpoint.h"
#include "run/given_model.h"
#include "run/run_warnings.h"
#include "run/shared/orders.h"
#include "run/shared/share_state.h"
#include "run/shared/step_sum.h"
#include "run/start_checks.h"
#include "train/eval_share.h"
#include "train/failure.h"
#include "train/micro_batch_limits.h"
#include "train/resolve.h"

namespace lmtrain {
namespace {

// Says what is otherwise from here on.
void announce(const std::vector<SettingChange>& changes) {
  for (const SettingChange& change : changes) {
    const std::string was = str(" (was ", change.was.dump(), ")");
    if (!change.unused.empty()) {
      log_note(str(change.key, " is ", change.is.dump(), was, ", without effect: ", change.unused));
    } else if (change.key.starts_with("optimizer.")) {
      log_note(str(change.key, " is ", change.is.dump(), " from the next update on", was,
                   "; what the optimizer remembers is kept"));
    } else {
      log_note(str(change.key, " is ", change.is.dump(), " from here on", was));
    }
  }
}

// Where the schedule of the rate begins anew in the middle of a run.
void warn_of_rate(const Config& before, const Config& after, const RestartableRun& training) {
  const Trainer* trainer = training.trainer();
  if (trainer == nullptr) return;
  const TrainingState& state = trainer->state();
  const std::optional<std::string> rise =
      rate_rise(before, after, trainer->order(), {state.step, state.tokens});
  if (rise) log_warning(*rise);
}

void log_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) log_warning(warning);
}

// The folder holds the run from here on, so the command that has begun it would be refused.
template <class Work>
int with_the_run_there(const RunFolder& run, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    if (failure.kind != ErrorKind::kIo) throw;
    throw Error(ErrorKind::kIo, str(failure.message, "; then go on with: lmtrain resume ",
                                    shell_quoted(run.path().string())));
  }
}

int train(RestartableRun& training, bool json) {
  const auto print_status = [&](const std::string& status) {
    if (json || !output_is_terminal()) std::cout << status << std::endl;
  };
  log_note(training.summary());
  log_warnings(training.warnings());
  try {
    const RunOutcome outcome = training.run();
    print_status(outcome.status);
    return outcome.exit_code;
  } catch (...) {
    if (!training.failed_status().empty()) print_status(training.failed_status());
    throw;
  }
}

void warn_of_threads(const Processes& processes, int64_t threads) {
  const int sharers = processes.processor_sharers();
  const int available = available_processors();
  if (processes.is_only() || sharers * threads <= available) return;
  log_warning(str(sharers, " processes of ", counted(threads, "thread"), " share ",
                  counted(available, "processor"),
                  " and wait for each other; fewer threads (threads, OMP_NUM_THREADS) are faster, "
                  "and give other bits"));
}

// Reached by each of several processes on its machine, before anything is exchanged in training.
constexpr const char* kPrepared = "prepared";

void set_timeout(Processes& processes, const ParallelConfig& config) {
  processes.set_timeout(
      std::chrono::milliseconds(static_cast<int64_t>(std::llround(1000 * config.timeout))));
}

PreparedData resolve_and_prepare(Config& config) {
  Processes& processes = joined_processes();
  check_processes(processes, config.parallel);
  set_timeout(processes, config.parallel);
  resolve_runtime(config, processes);
  warn_of_threads(processes, *config.threads);
  PreparedData data = prepare_data(config, static_cast<int>(*config.threads));
  resolve_vocab_size(config, Tokenizer::load(data.tokenizer_model));
  resolve_eval_tokens(config, data);
  tell(processes, RunOrder{config});
  processes.meet(kPrepared);
  require_alike(processes, data.fingerprint,
                device_description(at::kCPU, static_cast<int>(*config.threads)));
  prepare_memory(config);
  return data;
}

}  // namespace

PreparedData prepare_as_told(Config& config) {
  Processes& processes = joined_processes();
  set_timeout(processes, config.parallel);
  resolve_runtime(config, processes);
  const auto prepare = [&] { return prepare_data(config, static_cast<int>(*config.threads)); };
  PreparedData data;
  // One process of each machine prepares; the others find what it has left in the cache.
  const bool is_first_here = processes.local_rank() == 0;
  if (is_first_here) data = prepare();
  processes.meet(kPrepared);
  if (!is_first_here) data = prepare();
  require_alike(processes, data.fingerprint,
                device_description(at::kCPU, static_cast<int>(*config.threads)));
  prepare_memory(config);
  return data;
}

RestartableRun make_run(Config& config, const RunFolder& run) {
  const PreparedData data = resolve_and_prepare(config);
  return {config, data, run, joined_processes()};
}

RestartableRun make_new_run(Config& config, const RunFolder& run) {
  log_warnings(check_given_model(config));
  const PreparedData data = resolve_and_prepare(config);
  require_room_for_checkpoint(config, run);
  RestartableRun training(config, data, run, joined_processes());
  if (const std::optional<RunPlan> plan = training.plan()) {
    const CheckpointRoom room = checkpoint_room(config, *plan, run);
    if (room.is_short()) {
      log_warning(str("not all checkpoints of the run will fit: ", describe_room(room),
                      "; free some space, lower checkpoint.keep, or give another folder with "
                      "--run-dir"));
    }
  }
  return training;
}

FileLock lock_run(const RunFolder& run) {
  FileLock lock = run.lock();
  log_to_file(run.log());
  return lock;
}

int train_run(const RunFolder& run, RestartableRun& training, bool json) {
  return with_the_run_there(run, [&] { return train(training, json); });
}

int resume_run(const RunFolder& run, const std::vector<std::string>& overrides, bool json) {
  const FileLock lock = lock_run(run);
  auto [before, sealed] = read_run_config(run);
  Config config = changed_config(run, before, overrides);
  // A run that was copied or moved is a run of its own, where it is; no setting has changed by
  // that.
  config.run_dir = run.path().string();
  const bool moved = std::exchange(before.run_dir, config.run_dir) != config.run_dir;
  refuse_unlike_trials(run, before, config);
  RestartableRun training = make_run(config, run);
  if (!sealed) {
    log_note(str(run.config().string(),
                 " has no digest, since an earlier lmtrain wrote it: whether it was damaged cannot "
                 "be told; it has one from now on"));
  }
  const std::vector<SettingChange> changes = changed_settings(before, config);
  announce(changes);
  training.note_changes(changes_json(changes));
  warn_of_rate(before, config, training);
  const int64_t step = training.trainer() != nullptr ? training.trainer()->state().step : 0;
  if (!sealed || moved || !changes.empty()) write_run_config(run, config, step);
  return train_run(run, training, json);
}

int branch_run(const RunFolder& from, const Branch& branch,
               const std::vector<std::string>& overrides, bool json) {
  const RunFolder run(branch.run_dir);
  require_new_run(run);
  const int64_t step = checkpoint_of_branch(from, branch.step);
  const Config before = read_run_config(from).config;
  Config config = changed_config(from, before, overrides);
  const std::vector<SettingChange> changes = changed_settings(before, config);
  announce(changes);
  const std::filesystem::path file = from.checkpoint(step) / kStateFile;
  const TrainingState state = parse_state(read_file(file), file.string());
  config = config_of_branch(config, state.seed, run);
  precision_of(config);  // a device or precision that is not there is refused before a folder is

  const FileLock lock = lock_run(run);
  require_new_run(run);  // begun by another process since
  copy_checkpoint(from, step, run);
  write_run_config(run, config, step);
  return with_the_run_there(run, [&] {
    RestartableRun training = make_run(config, run);
    write_run_config(run, config, step);  // with what was auto made concrete
    warn_of_rate(before, config, training);
    RunLog(run, state, /*tensorboard=*/false)
        .event("start", state, str("branch of ", from.checkpoint(step).string()),
               {{"version", LMTRAIN_VERSION},
                {"device", config.device},
                {"precision", name_of(config.precision)},
                {"changed", changes_json(changes)}});
    return train(training, json);
  });
}

}  // namespace lmtrain
