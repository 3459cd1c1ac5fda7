// trial.json in a folder of random restart.
#include "checkpoint/trial.h"

#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(trial) {
  const RunFolder run(scratch_folder());
  std::filesystem::create_directories(run.trials() / "seed_7");
  write_scratch("trials/seed_7/trial.json", input);
  std::vector<TrialResult> trials;
  if (!accepts([&] { trials = read_trials(run); })) return;
  require(trials.size() == 1 && trials[0].seed == 7, "a trial of another folder");
  (void)best_trial(trials);
  require(!trial_table(trials, 7).empty(), "an empty table");
  write_trial(run, trials[0]);
  const TrialResult again = read_trials(run).at(0);
  require(again.step == trials[0].step && again.loss == trials[0].loss &&
              again.attempt == trials[0].attempt && again.diverged == trials[0].diverged,
          "a trial that is written reads as another");
}

}  // namespace lmtrain::fuzzing
