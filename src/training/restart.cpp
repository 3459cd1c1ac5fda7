#include "training/restart.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/stop.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/retention.h"
#include "device/failure.h"
#include "distributed/orders.h"
#include "formats/manifest.h"
#include "formats/strict_json.h"
#include "runlog/data_files.h"
#include "runlog/run_log.h"
#include "training/copy_checkpoint.h"
#include "training/preflight.h"

namespace lmtrain {
namespace {

std::optional<double> first_eval_loss(const RunFolder& folder) {
  std::optional<double> loss;
  for_each_json_line_with(folder.metrics(), "\"eval_loss\"",
                          [&](const nlohmann::json& line, uint64_t) {
                            if (!loss) loss = number_at(line, "eval_loss");
                          });
  return loss;
}

// Returns the state of the newest checkpoint, for the record of a failure; only its step if the
// state cannot be read, and step 0 without a checkpoint.
TrainingState newest_state(const RunFolder& run) {
  TrainingState reached;
  try {
    const std::vector<int64_t> steps = run.checkpoint_steps();
    if (steps.empty()) return reached;
    reached.step = steps.front();
    return read_state(run.checkpoint(steps.front()));
  } catch (const Error&) {
    return reached;
  }
}

// Throws Error(kIo) if a user has deleted the files of the folder one by one: writing would begin
// it anew.
void require_config(const RunFolder& run) {
  if (run.holds_run()) return;
  throw Error(ErrorKind::kIo,
              str(run.config().string(),
                  " is gone: the run folder, or a part of it, was deleted while the "
                  "run was trained; restore it"));
}

}  // namespace

RestartableRun::RestartableRun(Config config, PreparedData data, const RunFolder& run, bool is_new,
                               Processes& processes)
    : config_(std::move(config)),
      data_(std::move(data)),
      run_(run),
      is_new_(is_new),
      processes_(processes),
      started_(std::chrono::steady_clock::now()) {
  require_preflight(
      PreflightStage::kData,
      {.config = config_, .num_processes = processes_.count(), .data = &data_, .run = &run_});
  if (!is_new_ && run_.holds_run()) {
    trials_ = read_trials(run_);
    for (const TrialResult& trial : trials_) {
      require_same_data(run_, trial_folder(run_, trial.seed).path(), trial.fingerprint, config_,
                        data_.fingerprint);
    }
    settle();
  }
  prepare_trainer();
}

RunOutcome RestartableRun::run() {
  is_new_ = false;
  try {
    record_data_files(run_, config_);
    if (trainer_) record_data_totals(run_, data_, trainer_->order().sources());
    for (;;) {
      if (!given_up_.empty()) throw Error(ErrorKind::kNumeric, given_up_);
      const std::optional<RunOutcome> outcome = next_trial_ ? run_trial() : run_to_the_end();
      if (outcome) {
        require_config(run_);
        return *outcome;
      }
      settle();
      prepare_trainer();
    }
  } catch (const StopRequested& stop) {
    // The signal came during planning, which leaves the folder as it is.
    failed_status_ = write_status(run_, "stopped", newest_state(run_), stop.exit_code());
    throw;
  } catch (const std::exception& error) {
    if (failed_status_.empty()) report_failure(error);
    throw;
  }
}

void RestartableRun::note_changes(nlohmann::ordered_json changes) {
  changed_settings_ = std::move(changes);
}

// Writes a failure that no Trainer, or only the Trainer of a trial, has written.
void RestartableRun::report_failure(const std::exception& error) {
  const Failure failure = describe_failure(error);
  try {
    const TrainingState reached = newest_state(run_);
    if (!trainer_ || next_trial_)
      LogFiles(run_, reached, /*tensorboard=*/false).event("end", reached, failure.message);
    failed_status_ = write_failed_status(run_, reached, failure);
  } catch (const Error& second) {
    log_warning(second.what());
  }
}

bool RestartableRun::has_trials() const {
  return config_.restart.seeds > 1 || config_.restart.on_divergence;
}

int64_t RestartableRun::last_attempt() const {
  return trials_.empty() ? 0 : trials_.back().attempt;
}

std::vector<TrialResult> RestartableRun::last_trials() const {
  std::vector<TrialResult> trials;
  std::copy_if(trials_.begin(), trials_.end(), std::back_inserter(trials),
               [&](const TrialResult& trial) { return trial.attempt == last_attempt(); });
  return trials;
}

std::vector<int64_t> RestartableRun::seeds_of(int64_t attempt) const {
  const int64_t first = config_.restart.seeds;
  if (attempt > 0) return {seed_after(config_.seed, first - 1 + attempt)};
  std::vector<int64_t> seeds;
  for (int64_t i = 0; i < first; ++i) seeds.push_back(seed_after(config_.seed, i));
  return seeds;
}

// Wherever a process was killed, brings the folder to a point where a trial, the run, or nothing
// comes next.
void RestartableRun::settle() {
  const std::vector<TrialResult> trials = last_trials();
  const auto continued = std::find_if(trials.begin(), trials.end(),
                                      [](const TrialResult& trial) { return trial.continued; });
  if (continued != trials.end() && !continued->diverged) {
    finish_promotion(*continued);
    return;
  }
  if (continued == trials.end()) {
    if (trials.empty() || trials.size() < seeds_of(last_attempt()).size()) return;
    std::optional<TrialResult> best = best_trial(trials);
    if (best && (best->converged() || !config_.restart.on_divergence)) {
      log_note(str("random restart:\n", trial_table(trials, best->seed)));
      best->continued = true;
      record(*best);
      finish_promotion(*best);
      return;
    }
    for (const TrialResult& trial : trials) remove_trial_checkpoints(run_, trial.seed);
  }
  const int64_t attempts = last_attempt() + 1;
  const int64_t allowed = config_.restart.on_divergence ? config_.restart.max_attempts : 1;
  const std::string& reason = trials.back().reason;
  const std::string failed =
      str("attempt ", attempts, " of ", allowed,
          " did not converge: ", reason.empty() ? "the held-out loss did not fall" : reason);
  if (attempts >= allowed) {
    given_up_ = failed;
    if (!run_.checkpoint_steps().empty()) {
      given_up_ +=
          str("; its checkpoints are kept: go on from one before it diverged, with other "
              "settings, by lmtrain resume ",
              shell_quoted(run_.path().string()), " --from STEP --run-dir NEW --set KEY=VALUE");
    }
    return;
  }
  if (continued != trials.end()) abandon(*continued);
  log_warning(str(failed, "; beginning again with seed ", seeds_of(attempts).front()));
}

void RestartableRun::finish_promotion(const TrialResult& best) {
  if (run_.checkpoint_steps().empty()) {
    const RunFolder trial = trial_folder(run_, best.seed);
    if (!is_there(trial.checkpoint(best.step))) {
      log_warning(
          str("neither the run nor its best trial has a checkpoint any more; it begins "
              "again with the seed of that trial, ",
              best.seed));
      return;
    }
    copy_best(trial, best.step);
    copy_checkpoint(trial, best.step, run_);
  }
  for (const TrialResult& trial : trials_) remove_trial_checkpoints(run_, trial.seed);
}

// Copies the best checkpoints before the last one. After a kill in between the run goes on from an
// earlier step, to the same bits.
void RestartableRun::copy_best(const RunFolder& trial, int64_t end) {
  for (const int64_t step :
       best_checkpoints(trial, newest_state(trial), config_.checkpoint.keep_best)) {
    if (step >= end) continue;
    try {
      copy_checkpoint(trial, step, run_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCheckpoint) throw;
      warn_of_damage(error);
    }
  }
}

// The curve of the run that failed stays in its trial's folder.
void RestartableRun::abandon(const TrialResult& failed) {
  const std::vector<int64_t> steps = run_.checkpoint_steps();
  if (steps.empty() && !is_there(run_.metrics())) return;  // done before
  copy_metrics(run_, trial_folder(run_, failed.seed));
  remove_tree(run_.metrics());
  // The folder stays: it may be a link to another disk.
  for (const int64_t step : steps) remove_checkpoint(run_, step);
}

std::unique_ptr<Trainer> RestartableRun::make_trainer(int64_t seed, const RunFolder& folder,
                                                      std::optional<int64_t> checkpoint,
                                                      std::optional<TrainingDuration> trial) const {
  Config config = config_of_seed(config_, seed);
  if (config.train.max_time) {
    config.train.max_time = std::max(1e-3, *config.train.max_time - seconds_since(started_));
  }
  if (checkpoint)
    require_same_data(run_, folder.checkpoint(*checkpoint),
                      read_manifest(folder.checkpoint(*checkpoint)).fingerprint, config_,
                      data_.fingerprint);
  broadcast_order(processes_,
                  AttemptOrder{seed, checkpoint, trial.has_value(), config.train.max_time});
  return std::make_unique<Trainer>(std::move(config), data_, folder, checkpoint, trial, processes_);
}

void RestartableRun::prepare_trainer() {
  trainer_.reset();
  next_trial_.reset();
  if (!given_up_.empty()) return;
  // A folder that holds no run may hold anything else.
  const auto newest = [&](const RunFolder& folder) -> std::optional<int64_t> {
    if (is_new_ || !run_.holds_run()) return std::nullopt;
    folder.put_back_replaced();
    return newest_valid_checkpoint(folder, /*skip_training_state=*/false);
  };
  const std::optional<int64_t> checkpoint = newest(run_);
  const std::vector<TrialResult> trials = last_trials();
  const auto chosen = std::find_if(trials.begin(), trials.end(), [](const TrialResult& trial) {
    return trial.continued && !trial.diverged;
  });
  if (checkpoint || !has_trials() || chosen != trials.end()) {
    // The checkpoint's seed decides: on_divergence may have been changed since.
    const int64_t seed = checkpoint               ? read_state(run_.checkpoint(*checkpoint)).seed
                         : chosen != trials.end() ? chosen->seed
                                                  : config_.seed;
    trainer_ = make_trainer(seed, run_, checkpoint, std::nullopt);
    return;
  }
  const bool complete = trials.size() == seeds_of(last_attempt()).size();
  next_trial_.emplace();
  next_trial_->attempt = last_attempt() + (complete ? 1 : 0);
  for (const int64_t seed : seeds_of(next_trial_->attempt)) {
    next_trial_->seed = seed;
    const bool known = std::any_of(trials_.begin(), trials_.end(),
                                   [&](const TrialResult& trial) { return trial.seed == seed; });
    if (!known) break;
  }
  const RunFolder folder = trial_folder(run_, next_trial_->seed);
  trainer_ = make_trainer(next_trial_->seed, folder, newest(folder), config_.restart.tokens);
}

std::optional<RunOutcome> RestartableRun::run_trial() {
  const TrainingState none;
  const bool first = !is_there(run_.events());
  LogFiles log(run_, none, /*tensorboard=*/false);
  TrialResult result = *next_trial_;
  result.fingerprint = data_.fingerprint;
  const RunFolder folder = trial_folder(run_, result.seed);
  run_.require_there();
  lmtrain::create_directories(folder.path());
  if (!announced_) {
    nlohmann::ordered_json fields = start_fields(config_);
    const auto changes = std::exchange(changed_settings_, nlohmann::ordered_json::array());
    if (!changes.empty()) fields["changed"] = changes;
    log.event(first ? "start" : "resume", none, str("trial of seed ", result.seed), fields);
    announced_ = true;
  }
  log_note(str("trial of seed ", result.seed));
  write_status(run_, "running", none, std::nullopt);
  try {
    const RunOutcome outcome = trainer_->run();
    if (outcome.exit_code != 0) {
      log.event("end", none, outcome.reason);
      log_note(str("stopped by ", outcome.reason, " in the trial of seed ", result.seed,
                   "; go on with: lmtrain resume ", shell_quoted(run_.path().string())));
      return RunOutcome{outcome.exit_code, write_status(run_, "stopped", none, outcome.exit_code)};
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNumeric) throw;
    result.diverged = true;
    result.reason = error.what();
    log_warning(str("the trial of seed ", result.seed, " diverged: ", result.reason));
  }
  const TrainingState& state = trainer_->state();
  result.step = state.step;
  result.tokens = state.tokens;
  result.first_loss = first_eval_loss(folder);
  if (!result.diverged && data_.eval_shard && std::isfinite(state.eval_loss.value_or(NAN)))
    result.loss = state.eval_loss;
  log.event("restart_trial", none, result.reason,
            {{"attempt", result.attempt},
             {"seed", result.seed},
             {"trial_step", result.step},
             {"trial_tokens", result.tokens},
             {"eval_loss", finite_or_null(result.loss)}});
  trainer_.reset();
  record(result);
  return std::nullopt;
}

std::optional<RunOutcome> RestartableRun::run_to_the_end() {
  try {
    return trainer_->run(
        {.changed_settings = std::exchange(changed_settings_, nlohmann::ordered_json::array())});
  } catch (const Error& error) {
    const bool again = error.kind() == ErrorKind::kNumeric && config_.restart.on_divergence;
    if (!again) {
      failed_status_ = trainer_->failed_status();
      throw;
    }
    TrialResult failed;
    failed.seed = trainer_->state().seed;
    failed.fingerprint = data_.fingerprint;
    for (const TrialResult& trial : trials_) {
      if (trial.seed == failed.seed) failed = trial;
    }
    failed.continued = true;
    failed.diverged = true;
    failed.reason = error.what();
    trainer_.reset();
    record(failed);
    return std::nullopt;
  } catch (...) {
    failed_status_ = trainer_->failed_status();
    throw;
  }
}

void RestartableRun::record(const TrialResult& result) {
  write_trial(run_, result);
  trials_ = read_trials(run_);
  // Only the best so far may still be needed.
  const std::optional<TrialResult> best = best_trial(last_trials());
  for (const TrialResult& trial : trials_) {
    if (!best || trial.seed != best->seed) remove_trial_checkpoints(run_, trial.seed);
  }
}

}  // namespace lmtrain
