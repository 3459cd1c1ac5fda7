#include "training/launch.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/random.h"
#include "base/start_times.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "base/text.h"
#include "checkpoint/changed_settings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/given_model.h"
#include "checkpoint/run_config.h"
#include "checkpoint/share_state.h"
#include "checkpoint/state.h"
#include "checkpoint/trial.h"
#include "config/parse.h"
#include "device/device.h"
#include "device/device_memory.h"
#include "device/failure.h"
#include "distributed/connect.h"
#include "distributed/launcher.h"
#include "distributed/orders.h"
#include "prepare/given_tokenizer.h"
#include "runlog/data_files.h"
#include "runlog/run_log.h"
#include "training/choices.h"
#include "training/copy_checkpoint.h"
#include "training/expected_loss.h"
#include "training/micro_batch_limits.h"
#include "training/preflight.h"
#include "training/resolve.h"
#include "training/trainer.h"

namespace lmtrain {
namespace {

// The process's own, like its signals: set once, before anything is exchanged.
Processes* g_joined = nullptr;
bool g_left_in_failure = false;

// ---- Data, in every process ----

void log_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) log_warning(warning);
}

// The other processes of the machine wait for the preparation, so it may use their processors too.
int threads_to_prepare(const Processes& processes, const Config& config) {
  const auto threads = static_cast<int>(*config.threads);
  return processes.is_only() ? threads : std::max(threads, available_processors());
}

PreparedData prepare_while_watching(Processes& processes, const Config& config) {
  PreparedData data;
  processes.while_watching(
      [&] { data = prepare_data(config, threads_to_prepare(processes, config)); });
  return data;
}

// Reached by each of several processes on its machine, before anything is exchanged in training.
constexpr const char* kPrepared = "prepared";

void set_exchanges(Processes& processes, const ParallelConfig& config) {
  processes.set_timeout(
      std::chrono::milliseconds(static_cast<int64_t>(std::llround(1000 * config.timeout))));
  processes.use_nccl(config.nccl, /*keeps_order=*/config.sum == ParallelSum::kExact);
}

// Returns a text of all that decides how results are rounded, which must be alike in every process.
// `config` is resolved.
std::string numerics_signature(const Config& config) {
  return device_description(resolve_device(config.device), static_cast<int>(*config.threads));
}

// Every process calls it before it allocates the model. Throws if its data or its numerics differ
// from rank 0's, or if its memory is too small.
void require_ready(Processes& processes, const Config& config, const PreparedData& data) {
  require_alike(processes, data.fingerprint, numerics_signature(config));
  require_memory(config, processes.count());
}

// Prepares the data in one process of each machine (Processes::prepares); returns nothing in
// others. Ranks after 0 call it first.
std::optional<PreparedData> prepare_for_machine(const Config& config) {
  Processes& processes = joined_processes();
  set_exchanges(processes, config.parallel);
  if (!processes.prepares()) return std::nullopt;
  return prepare_while_watching(processes, config);
}

// Returns `prepared` if given, else the data that another process of this machine has prepared.
// Ranks after 0 call it next. Resolves the settings that depend on the process in `config`, which
// rank 0 has sent.
PreparedData prepare_as_told(Config& config, std::optional<PreparedData> prepared) {
  Processes& processes = joined_processes();
  set_exchanges(processes, config.parallel);
  resolve_runtime(config, processes);
  if (processes.local_rank() == 0) log_warnings(process_warnings(config, processes));
  processes.barrier(kPrepared);
  PreparedData data;
  // One process of each machine has prepared the data, and logged the warnings; the other processes
  // find the data in the cache.
  if (prepared) {
    data = std::move(*prepared);
  } else {
    const WarningsMuted muted;
    data = prepare_while_watching(processes, config);
  }
  require_ready(processes, config, data);
  return data;
}

// ---- The ranks after 0 ----

// One attempt of the run in a process that is not the first.
void follow_attempt(const AttemptOrder& order, const Config& run_config, const PreparedData& data,
                    Processes& processes) {
  Config config = config_of_seed(run_config, order.seed);
  config.train.max_time = order.max_time;
  std::optional<TrainingDuration> trial;
  if (order.is_trial) trial = config.restart.tokens;
  try {
    Trainer trainer(config, data, RunFolder(*config.run_dir), order.checkpoint, trial, processes);
    trainer.run({.last_step = order.last_step});
  } catch (const Error& error) {
    // Every process has diverged; the first one decides what becomes of the run.
    if (error.kind() != ErrorKind::kNumeric) throw;
  }
}

int follow(Processes& processes) {
  Config config;
  std::optional<PreparedData> prepared;
  PreparedData data;
  for (;;) {
    const Order order = receive_order(processes);
    if (const auto* end = std::get_if<EndOrder>(&order)) return end->exit_code;
    if (const auto* prepare = std::get_if<PrepareOrder>(&order)) {
      prepared = prepare_for_machine(prepare->config);
    } else if (const auto* run = std::get_if<RunOrder>(&order)) {
      config = run->config;
      data = prepare_as_told(config, std::move(prepared));
    } else {
      follow_attempt(std::get<AttemptOrder>(order), config, data, processes);
    }
  }
}

int lead_or_follow(Processes& processes, const std::function<int()>& lead) {
  if (!processes.is_first()) return follow(processes);
  const int code = lead();
  broadcast_order(processes, EndOrder{code});
  return code;
}

// Each process has two connections or more to every other one, and the usual limit is 1024 files.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  [[maybe_unused]] const int result = ::setrlimit(RLIMIT_NOFILE, &limit);
}

int take_part(const Launch& launch, const std::function<int()>& lead) {
  raise_file_limit();
  log_as_rank(launch.rank);
  const auto timeout = std::chrono::duration<double>(ParallelConfig().timeout);
  g_left_in_failure = true;  // until all are connected, a thread may wait for those which are not
  std::unique_ptr<Processes> processes =
      connect_processes(launch, std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
  g_left_in_failure = false;
  g_joined = processes.get();
  log_note(str(processes->count(), " processes, started by ", launch.launcher, ", ",
               processes->local_count(), " of them on this machine"));
  const auto give_up = [&](int code, const std::string& cause) {
    // Destroying what a lost process has left half done could wait for it.
    g_left_in_failure = true;
    processes.release()->give_up(code, cause);
  };
  try {
    const int code = lead_or_follow(*processes, lead);
    processes->leave();
    g_joined = nullptr;
    return code;
  } catch (const StopRequested& stop) {
    give_up(stop.exit_code(), stop.message());
    throw;
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    give_up(failure.exit_code, failure.message);
    throw;
  }
}

// ---- The run, in rank 0 ----

// Logs the settings that differ from here on.
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

// Throws for a change of how the weights are trained in a run that has no step left: config.json
// would then tell what never happened.
void refuse_too_late(const std::vector<SettingChange>& changes, const RestartableRun& training) {
  const Trainer* trainer = training.trainer();
  if (trainer == nullptr || !trainer->is_finished()) return;
  for (const SettingChange& change : changes) {
    const bool trains = shapes_updates(change.key) || change.key.starts_with("guard.");
    if (!trains || !change.unused.empty()) continue;
    throw Error(ErrorKind::kConfig,
                str(change.key, " cannot change any more: the run is finished at step ",
                    trainer->state().step,
                    "; give it a greater length too (--set train.tokens=N), or begin a branch "
                    "from an earlier checkpoint: lmtrain resume RUN --from STEP --run-dir NEW"));
  }
}

// Warns where the run goes on from a checkpoint; a trial of random restart does not.
void warn_of_changes(const Config& before, const Config& after, const RestartableRun& training) {
  const Trainer* trainer = training.trainer();
  if (trainer == nullptr) return;
  const TrainingState& state = trainer->state();
  ResumePoint position{state.step, state.tokens};
  for (const Replan& replan : state.replans) {
    // The last one may be the change that is made here.
    if (replan.pace || replan.first_batch < state.batch) position.pace = replan.pace;
  }
  log_warnings(resume_warnings(before, after, trainer->order(), position));
}

// Adds the command that resumes the run to an Error(kIo), since the command that has begun the run
// would now be refused; or says that the run folder is gone.
template <class Work>
int with_resume_hint(const RunFolder& run, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    std::error_code ignored;
    const bool can_go_on = std::filesystem::exists(run.config(), ignored);
    const bool is_gone = !can_go_on && !std::filesystem::exists(run.path(), ignored);
    if (failure.kind != ErrorKind::kIo || !(can_go_on || is_gone)) throw;
    const std::string message =
        str(failure.message,
            is_gone ? "; the run folder is not there any more: if it was moved, resume it there"
                    : str("; then go on with: lmtrain resume ", shell_quoted(run.path().string())));
    if (dynamic_cast<const ProcessLost*>(&error) != nullptr)
      throw ProcessLost(failure.exit_code, message);
    throw Error(ErrorKind::kIo, message);
  }
}

void print_status(const std::string& status, bool json) {
  if (json || !output_is_terminal()) std::cout << status << std::endl;
}

int train(RestartableRun& training, bool json) {
  log_note(training.summary());
  log_warnings(training.warnings());
  // A plan walks over all steps.
  if (const std::optional<RunPlan> plan =
          training.config().forecast ? training.plan() : std::nullopt)
    write_expectation(training.config(), training.data(), training.folder(),
                      static_cast<double>(plan->targets));
  try {
    const RunOutcome outcome = training.run();
    print_status(outcome.status, json);
    return outcome.exit_code;
  } catch (...) {
    if (!training.failed_status().empty()) print_status(training.failed_status(), json);
    throw;
  }
}

// Returns the step that the run goes on from; 0 if a trial comes next.
int64_t present_step(const RestartableRun& training) {
  return training.trainer() != nullptr ? training.trainer()->state().step : 0;
}

// -1: the folder has no checkpoint.
int64_t newest_step(const RunFolder& run) {
  const std::vector<int64_t> steps = run.checkpoint_steps();
  return steps.empty() ? -1 : steps.front();
}

// Calls work(step) and returns its result. If that fails since the process that trains `from` has
// removed the checkpoint, and nobody asked for this step, takes the then newest checkpoint.
template <class Work>
auto with_branch_step(const RunFolder& from, std::optional<int64_t> asked_for, const Work& work) {
  for (;;) {
    const int64_t step = checkpoint_of_branch(from, asked_for);
    try {
      return work(step);
    } catch (const Error&) {
      if (asked_for || newest_step(from) <= step) throw;
    }
  }
}

int64_t seed_of_checkpoint(const RunFolder& run, int64_t step) {
  return read_state(run.checkpoint(step)).seed;
}

// Throws for a change that a branch would drop: its checkpoint belongs to one trial.
void refuse_restart_of_branch(const std::vector<SettingChange>& changes) {
  for (const SettingChange& change : changes) {
    if (!change.key.starts_with("restart.")) continue;
    throw Error(ErrorKind::kConfig,
                str(change.key,
                    " cannot be set for a branch, which has no random restart: it goes "
                    "on from a checkpoint of one trial; leave it out"));
  }
}

// A run's config.json holds the path of its folder.
void require_storable(const std::filesystem::path& run) {
  const std::string problem = why_config_cannot_hold(run.string());
  if (problem.empty()) return;
  throw Error(ErrorKind::kUsage, str("the path of the run, ", run.string(), ", ", problem,
                                     ", and config.json cannot hold it; rename the folder"));
}

// Prepares the data of a run that is there. Warns of data files that have changed.
PreparedData prepare_there(Config& config, const RunFolder& run) {
  require_given_tokenizer(run, config);
  warn_of_changed_files(run, config);
  return resolve_and_prepare(config);
}

// Prepares the data of a run that goes on. Returns nothing, and says so, where its text or the
// given tokenizer cannot be found any more, the run is done, and no setting `is_changed`.
std::optional<PreparedData> prepare_again(Config& config, const RunFolder& run, bool is_changed,
                                          bool json) {
  try {
    return prepare_there(config, run);
  } catch (const Error& error) {
    const std::string_view problem = error.what();
    const bool is_text_missing = error.kind() == ErrorKind::kUsage && problem.starts_with("/data/");
    const bool is_tokenizer_missing =
        error.kind() == ErrorKind::kUsage && problem.starts_with("/tokenizer/");
    if (!is_text_missing && !is_tokenizer_missing) throw;
    const std::string status = done_status(run, newest_step(run));
    if (status.empty() || is_changed || !joined_processes().is_only()) {
      if (is_tokenizer_missing) throw;
      throw Error(error.kind(), str(problem,
                                    "; the run was begun with this text: put it back, or a link at "
                                    "the old path to where it is now"));
    }
    log_note(str("the run in ", run.path().string(), " is finished; its ",
                 is_text_missing ? "text" : "tokenizer", " is not there any more: ", problem));
    print_status(status, json);
    return std::nullopt;
  }
}

// Builds the run of a folder that is locked and holds it.
RestartableRun make_run(Config& config, const RunFolder& run) {
  const PreparedData data = prepare_there(config, run);
  return {config, data, run, /*is_new=*/false, joined_processes()};
}

}  // namespace

int in_processes(const std::function<int()>& lead) {
  const Launch launch = read_launch(process_environment());
  return launch.count == 1 ? lead() : take_part(launch, lead);
}

bool is_first_process() { return read_launch(process_environment()).rank == 0; }

bool left_in_failure() { return g_left_in_failure; }

Processes& joined_processes() { return g_joined != nullptr ? *g_joined : only_process(); }

PreparedData resolve_and_prepare(Config& config) {
  start_times().end_phase("config");
  Processes& processes = joined_processes();
  const Preflight start{.config = config, .num_processes = processes.count()};
  require_preflight(PreflightStage::kSettings, start);
  set_exchanges(processes, config.parallel);
  resolve_runtime(config, processes);
  start_times().end_phase("device");
  require_preflight(PreflightStage::kDevice, start);
  log_warnings(process_warnings(config, processes));
  resolve_document_ends(config);
  broadcast_order(processes, PrepareOrder{config});
  PreparedData data = prepare_while_watching(processes, config);
  start_times().end_phase("data");
  // With train.time it measures, for longer than the others may be left waiting.
  processes.while_watching([&] { resolve_after_data(config, data, processes.count(), processes); });
  broadcast_order(processes, RunOrder{config});
  processes.barrier(kPrepared);
  require_ready(processes, config, data);
  log_warnings(resume_memory_warnings(config, available_memory(at::kCPU), processes.count()));
  start_times().end_phase("settings");
  return data;
}

RestartableRun make_new_run(Config& config, RunFolder& run) {
  log_warnings(check_given_model(config));
  if (config.forecast) read_forecast(*config.forecast);  // before the data are prepared
  const PreparedData data = resolve_and_prepare(config);
  require_preflight(
      PreflightStage::kNewRun,
      {.config = config, .num_processes = joined_processes().count(), .data = &data, .run = &run});
  RunIdentity identity{.id = random_id()};
  if (config.init_from) {
    identity.init_from = weights_digest(*config.init_from);
    start_times().end_phase("digest");
  }
  run = RunFolder(run.path(), std::move(identity));
  RestartableRun training(config, data, run, /*is_new=*/true, joined_processes());
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

RunLock lock_run(const RunFolder& run) {
  RunLock lock = run.lock();
  log_to_file(run.log());
  return lock;
}

int train_run(RestartableRun& training, bool json) {
  return with_resume_hint(training.folder(), [&] { return train(training, json); });
}

int train_part(const RunFolder& folder, Config config) {
  const RunLock lock = lock_run(folder);
  RunFolder run(folder.path());
  if (!folder.holds_run()) {
    RestartableRun training = make_new_run(config, run);
    write_run_config(run, config, /*step=*/0);
    return training.run().exit_code;
  }
  RunConfig there = read_run_config(folder);
  run = RunFolder(folder.path(), std::move(there.identity));
  const bool moved = there.config.run_dir != run.path().string();
  there.config.run_dir = run.path().string();
  RestartableRun training = make_run(there.config, run);
  if (moved) write_run_config(run, there.config, present_step(training));
  return training.run().exit_code;
}

int resume_run(const RunFolder& folder, const std::vector<std::string>& overrides, bool json) {
  require_storable(folder.path());
  const RunLock lock = lock_run(folder);
  auto [before, identity] = read_run_config(folder);
  const RunFolder run(folder.path(), std::move(identity));
  Config config = changed_config(run, before, overrides);
  // A copied or moved run goes on in its present folder; that is no change of a setting.
  config.run_dir = run.path().string();
  const bool moved = std::exchange(before.run_dir, config.run_dir) != config.run_dir;
  refuse_unlike_trials(run, before, config);
  finish_branch(run);
  const std::optional<PreparedData> data = prepare_again(config, run, !overrides.empty(), json);
  if (!data) return 0;
  RestartableRun training(config, *data, run, /*is_new=*/false, joined_processes());
  const std::vector<SettingChange> changes = changed_settings(before, config);
  refuse_too_late(changes, training);
  announce(changes);
  training.note_changes(changes_json(changes));
  warn_of_changes(before, config, training);
  if (moved || !changes.empty()) write_run_config(run, config, present_step(training));
  return train_run(training, json);
}

int branch_run(const RunFolder& folder, const Branch& branch,
               const std::vector<std::string>& overrides, bool json) {
  require_storable(branch.run_dir);
  require_storable(folder.path());
  require_new_run(RunFolder(branch.run_dir));
  const RunConfig origin = read_run_config(folder);
  const RunFolder from(folder.path(), origin.identity);
  const int64_t seed = with_branch_step(
      from, branch.step, [&](int64_t step) { return seed_of_checkpoint(from, step); });
  Config config = changed_config(from, origin.config, overrides);
  const std::vector<SettingChange> changes = changed_settings(origin.config, config);
  refuse_restart_of_branch(changes);
  announce(changes);
  const std::string name = config.name;
  config = config_of_branch(config, seed, RunFolder(branch.run_dir));
  if (name != origin.config.name) config.name = name;
  precision_of(config);  // a device or precision that is not there is refused before a folder is

  const RunLock lock = lock_run(RunFolder(branch.run_dir));
  require_new_run(RunFolder(branch.run_dir));  // begun by another process since
  return with_resume_hint(RunFolder(branch.run_dir), [&] {
    const std::string id = random_id();
    // The config comes first: where the process is killed from here on, `resume` finds in it which
    // checkpoint to copy.
    const RunFolder run = with_branch_step(from, branch.step, [&](int64_t step) {
      RunFolder begun(branch.run_dir, {id, BranchPoint{from.identity().id, from.path(), step},
                                       from.identity().init_from});
      write_run_config(begun, config, step);
      copy_checkpoint(from, step, begun);
      return begun;
    });
    const int64_t step = run.identity().branch_of->step;
    RestartableRun training = make_run(config, run);
    write_run_config(run, config, step);  // with what was auto made concrete
    warn_of_changes(origin.config, config, training);
    nlohmann::ordered_json fields = start_fields(config);
    fields["changed"] = changes_json(changes);
    LogFiles(run, training.trainer()->state(), /*tensorboard=*/false)
        .event("start", training.trainer()->state(),
               str("branch of ", from.checkpoint(step).string()), fields);
    return train(training, json);
  });
}

}  // namespace lmtrain
