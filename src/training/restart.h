// Trains a run that may begin more than once: by random restart (`restart.seeds` trials, of which
// the best goes on) and by `restart.on_divergence` (a run that does not converge begins again from
// the next seed). Without either it is one Trainer from beginning to end.
//
// The first attempt has the seeds seed, seed + 1 ... of `restart.seeds` trials, each trained to
// restart.tokens on the whole run's schedules; every further attempt has one, the next seed. The
// best trial of an attempt becomes the run: its checkpoint is copied into the run folder and
// trained to the end, bit for bit as that seed alone. With on_divergence an attempt fails when no
// trial converged (held-out loss below that of step 0) or the guard ends the run (exit code 4), and
// there are at most max_attempts. After a kill at any point the next process reads
// trials/*/trial.json and the run's checkpoints, finishes what was under way, and goes on.
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
  // `config` is resolved. A folder that holds the run already must be locked: what was under way
  // there is finished, and its newest valid checkpoint taken. The folder of a run that `is_new` is
  // neither read nor changed before run(), so it need not be locked until then. Throws
  // Error(kConfig) when trials have to be compared and there is no held-out text; also throws the
  // errors of Trainer. Only the first of several processes makes one; it tells the others each
  // attempt (distributed/orders.h).
  RestartableRun(Config config, PreparedData data, const RunFolder& run, bool is_new = false,
                 Processes& processes = only_process());

  // Returns the plan of the whole run, which the trainer that comes next has; nothing when every
  // attempt has failed.
  std::optional<RunPlan> plan() const {
    return trainer_ ? std::optional(trainer_->plan()) : std::nullopt;
  }
  // Returns that plan for people, or why every attempt has failed.
  std::string summary() const { return trainer_ ? trainer_->summary() : given_up_; }
  // Returns the run's own trainer where that comes next; null where a trial comes next, or where
  // every attempt has failed.
  const Trainer* trainer() const { return next_trial_ ? nullptr : trainer_.get(); }
  std::vector<std::string> warnings() const {
    return trainer_ ? trainer_->warnings() : std::vector<std::string>();
  }
  // Takes the settings that this process has changed (Trainer::changed_settings), for its event
  // `resume`.
  void note_changes(nlohmann::ordered_json changes);
  // Trains as Trainer::run() does, over all attempts. Throws Error(kNumeric) when every attempt has
  // failed, now or before; StopRequested when a signal comes while a further attempt is planned.
  RunOutcome run();
  // Returns the status.json that a failed run() has written; empty when it could not.
  const std::string& failed_status() const { return failed_status_; }

 private:
  void report_failure(const std::exception& error);
  bool has_trials() const;
  // The next three return the last attempt that has any result, its results, and the seeds of an
  // attempt.
  int64_t last_attempt() const;
  std::vector<TrialResult> last_trials() const;
  std::vector<int64_t> seeds_of(int64_t attempt) const;

  // Finishes what was under way when a process was killed, and chooses the best trial or gives up.
  void settle();
  // Makes the best trial the run: copies its checkpoint, and removes those of the trials.
  void copy_best(const RunFolder& trial, int64_t end);
  void finish_promotion(const TrialResult& best);
  // Clears the run's folder after its attempt has failed; its metrics go to the trial's folder.
  void abandon(const TrialResult& failed);
  // Makes the trainer that comes next, if any.
  void prepare_trainer();
  std::unique_ptr<Trainer> make_trainer(int64_t seed, const RunFolder& folder,
                                        std::optional<int64_t> checkpoint,
                                        std::optional<TrainingDuration> trial) const;
  // These two return the outcome that ends the process; nothing where another trainer comes next.
  std::optional<RunOutcome> run_trial();
  std::optional<RunOutcome> run_to_the_end();
  // Writes trial.json, and removes the checkpoints of all trials but the best.
  void record(const TrialResult& result);

  Config config_;
  PreparedData data_;
  RunFolder run_;
  bool is_new_;  // the folder holds nothing of this run yet
  Processes& processes_;
  std::chrono::steady_clock::time_point started_;
  std::vector<TrialResult> trials_;
  std::optional<TrialResult> next_trial_;  // what comes next; none: the run itself
  std::unique_ptr<Trainer> trainer_;       // trains what comes next; null: every attempt has failed
  std::string given_up_;                   // why, when every attempt has failed
  bool announced_ = false;                 // a start or resume event is there from this process
  nlohmann::ordered_json changed_settings_ = nlohmann::ordered_json::array();
  std::string failed_status_;
};

}  // namespace lmtrain
