// trial.json in a folder of random restart. An input without its checksum gets one, so that the
// reader goes on.
#include "checkpoint/trial.h"

#include "fuzz/sealed.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(trial) {
  const RunFolder run(scratch_folder());
  std::filesystem::create_directories(run.trials() / "seed_7");
  for (const std::string& text : {std::string(input), sealed(input)}) {
    write_scratch("trials/seed_7/trial.json", text);
    std::vector<TrialResult> trials;
    if (!accepts([&] { trials = read_trials(run); })) continue;
    require(trials.size() == 1 && trials[0].seed == 7, "a trial of another folder");
    (void)best_trial(trials);
    require(!trial_table(trials, 7).empty(), "an empty table");
    write_trial(run, trials[0]);
    const TrialResult again = read_trials(run).at(0);
    require(again.step == trials[0].step && again.loss == trials[0].loss &&
                again.attempt == trials[0].attempt && again.diverged == trials[0].diverged &&
                again.fingerprint == trials[0].fingerprint,
            "a trial that is written reads as another");
  }
}

}  // namespace lmtrain::fuzzing
