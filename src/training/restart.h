// Trains a run that may begin more than once. Random restart trains `restart.seeds` trials, and the
// best trial goes on. With `restart.on_divergence` a run that does not converge begins again with
// the next seed. Without either, one Trainer trains the run from beginning to end.
//
// The first attempt has `restart.seeds` trials, with the seeds seed, seed + 1, and so on. Every
// further attempt has one trial, with the next seed. A trial trains restart.tokens on the schedules
// of the whole run. The best trial of an attempt becomes the run: its checkpoint is copied into the
// run folder and trained to the end. The bits are the same as when that seed trains alone.
//
// With on_divergence there are at most max_attempts. A trial converges when its last held-out loss
// is below the loss of step 0. An attempt fails when no trial converges, or when the guard ends the
// run (exit code 4). After a kill at any point, the next process reads trials/*/trial.json and the
// run's checkpoints, finishes the interrupted work, and goes on.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/trial.h"
#include "distributed/processes.h"
#include "training/trainer.h"

namespace lmtrain {

class RestartableRun {
 public:
  // `config` is resolved. A folder that already holds the run must be locked: the constructor
  // finishes interrupted work there, and begins from the newest valid checkpoint. If the run
  // `is_new`, its folder is neither read nor changed before run(), and need not be locked until
  // then. With several processes only rank 0 constructs it; it sends the others each attempt
  // (distributed/orders.h). Throws the errors of require_preflight for the stage kData,
  // read_trials, require_same_data, newest_valid_checkpoint, copy_checkpoint and Trainer.
  RestartableRun(Config config, PreparedData data, const RunFolder& run, bool is_new = false,
                 Processes& processes = only_process());

  // Returns the plan of the whole run; nothing if every attempt has failed.
  std::optional<RunPlan> plan() const {
    return trainer_ ? std::optional(trainer_->plan()) : std::nullopt;
  }
  // Returns that plan for people, or why every attempt has failed.
  std::string summary() const { return trainer_ ? trainer_->summary() : given_up_; }
  // Returns the trainer of the run itself; null when a trial comes next, or when every attempt has
  // failed.
  const Trainer* trainer() const { return next_trial_ ? nullptr : trainer_.get(); }
  const Config& config() const { return config_; }
  const PreparedData& data() const { return data_; }
  const RunFolder& folder() const { return run_; }
  std::vector<std::string> warnings() const {
    return trainer_ ? trainer_->warnings() : std::vector<std::string>();
  }
  // Sets the changes that the event `resume` names (TrainingOptions::changed_settings).
  void note_changes(nlohmann::ordered_json changes);
  // Trains as Trainer::run() does, over all attempts. Throws the errors of Trainer, and:
  //   Error(kNumeric)  every attempt has failed, in this process or an earlier one
  //   StopRequested    a signal came while the next attempt was planned
  RunOutcome run();
  // Returns the status.json that a failed run() wrote; empty when it could not write.
  const std::string& failed_status() const { return failed_status_; }

 private:
  void report_failure(const std::exception& error);
  bool has_trials() const;
  // Returns the number of the last attempt with a result, from 0; 0 when no attempt has one.
  int64_t last_attempt() const;
  // Returns the results of the last attempt.
  std::vector<TrialResult> last_trials() const;
  std::vector<int64_t> seeds_of(int64_t attempt) const;

  // Finishes the work that a kill interrupted. Then chooses the best trial, plans the next attempt,
  // or gives up.
  void settle();
  // Copies the trial's best checkpoints before step `end` into the run folder.
  void copy_best(const RunFolder& trial, int64_t end);
  // Makes the best trial the run: copies its checkpoints into the run folder, and then removes the
  // checkpoints of all trials.
  void finish_promotion(const TrialResult& best);
  // Clears the run's folder after its attempt has failed. Its metrics go to the trial's folder.
  void abandon(const TrialResult& failed);
  // Constructs the next trainer, unless every attempt has failed.
  void prepare_trainer();
  std::unique_ptr<Trainer> make_trainer(int64_t seed, const RunFolder& folder,
                                        std::optional<int64_t> checkpoint,
                                        std::optional<TrainingDuration> trial) const;
  // These two return the outcome that ends the process; nothing when another trainer comes next.
  std::optional<RunOutcome> run_trial();
  std::optional<RunOutcome> run_to_the_end();
  // Writes trial.json, and removes the checkpoints of all trials but the best of this attempt.
  void record(const TrialResult& result);

  Config config_;
  PreparedData data_;
  RunFolder run_;
  bool is_new_;  // the folder holds nothing of this run yet
  Processes& processes_;
  std::chrono::steady_clock::time_point started_;
  std::vector<TrialResult> trials_;
  std::optional<TrialResult> next_trial_;  // the trial that comes next; nothing: the run itself
  std::unique_ptr<Trainer> trainer_;       // the next trainer; null: every attempt has failed
  std::string given_up_;                   // why every attempt has failed; else empty
  bool announced_ = false;                 // this process has written a start or resume event
  // The changes that note_changes() named, until an event has them.
  nlohmann::ordered_json changed_settings_ = nlohmann::ordered_json::array();
  std::string failed_status_;
};

}  // namespace lmtrain
