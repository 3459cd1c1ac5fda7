// A run, which may begin more than once: random restart (`restart.seeds` trials, of which the best
// goes on) and `restart.on_divergence` (a run that does not converge begins again from the next
// seed). Without either it is one Trainer from beginning to end.
//
// The first attempt has the seeds seed, seed + 1 ... of `restart.seeds` trials, each trained to
// restart.tokens on the whole run's schedules; every further attempt has one, the next seed. The
// best trial of an attempt becomes the run: its checkpoint is copied into the run folder and
// trained to the end, bit for bit as that seed alone. With on_divergence an attempt fails when no
// trial converged (held-out loss below that of step 0) or the guard ends the run (exit code 4), and
// there are at most max_attempts. Killed at any point, the next process reads trials/*/trial.json
// and the run's checkpoints, finishes what was under way, and goes on.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/trial.h"
#include "processes/processes.h"
#include "run/trainer.h"

namespace lmtrain {

class RestartableRun {
 public:
  // `config` is resolved. A folder that holds the run already must be locked: what was under way
  // there is finished, and its newest valid checkpoint taken. The folder of a run that `is_new` is
  // neither read nor changed before run(), so it need not be locked until then. Error(kConfig) when
  // trials have to be compared and there is no held-out text.
  // Only the first of several processes makes one; it tells the others each attempt
  // (run/shared/orders.h).
  RestartableRun(Config config, PreparedData data, const RunFolder& run, bool is_new = false,
                 Processes& processes = only_process());

  // The plan of the whole run, as the trainer that comes next has it; nothing when every attempt
  // has failed.
  std::optional<RunPlan> plan() const {
    return trainer_ ? std::optional(trainer_->plan()) : std::nullopt;
  }
  // The same for people.
  std::string summary() const { return trainer_ ? trainer_->summary() : given_up_; }
  // The run where it comes next; null where a trial does, or nothing.
  const Trainer* trainer() const { return next_trial_ ? nullptr : trainer_.get(); }
  std::vector<std::string> warnings() const {
    return trainer_ ? trainer_->warnings() : std::vector<std::string>();
  }
  // Settings that this process has changed (Trainer::changed_settings), for its event `resume`.
  void note_changes(nlohmann::ordered_json changes);
  // As Trainer's; Error(kNumeric) when every attempt has failed, now or before.
  RunOutcome run();
  const std::string& failed_status() const { return failed_status_; }

 private:
  void report_failure(const std::exception& error);
  bool has_trials() const;
  // The last attempt that has any result, its results, and the seeds that an attempt has.
  int64_t last_attempt() const;
  std::vector<TrialResult> last_trials() const;
  std::vector<int64_t> seeds_of(int64_t attempt) const;

  void settle();
  void finish_promotion(const TrialResult& best);
  void abandon(const TrialResult& failed);
  void prepare_trainer();
  std::unique_ptr<Trainer> make_trainer(int64_t seed, const RunFolder& folder,
                                        std::optional<int64_t> checkpoint,
                                        std::optional<TrainingDuration> trial) const;
  // The outcome where it ends the process.
  std::optional<RunOutcome> run_trial();
  std::optional<RunOutcome> run_to_the_end();
  void record(const TrialResult& result);

  Config config_;
  PreparedData data_;
  RunFolder run_;
  bool is_new_;  // the folder holds nothing of this run yet
  Processes& processes_;
  std::chrono::steady_clock::time_point started_;
  std::vector<TrialResult> trials_;
  std::optional<TrialResult> next_trial_;  // what comes next; none: the run itself
  std::unique_ptr<Trainer> trainer_;       // of what comes next; none: given up
  std::string given_up_;                   // why, when every attempt has failed
  bool announced_ = false;                 // a start or resume event is there from this process
  nlohmann::ordered_json changed_settings_ = nlohmann::ordered_json::array();
  std::string failed_status_;
};

}  // namespace lmtrain
