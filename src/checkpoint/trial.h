// The trials of random restart: where they lie, what came out of each, and which is the best.
//
// A trial is the beginning of the run from another seed, in RUN/trials/seed_N with a metrics.jsonl
// of its own. Its result is RUN/trials/seed_N/trial.json, written when it has ended; all that
// random restart decides is a function of these files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

struct TrialResult {
  int64_t attempt = 0;  // from 0; all seeds that are compared with each other have the same
  int64_t seed = 0;
  bool diverged = false;   // the guard ended it, as a trial or later
  bool continued = false;  // it was the best and became the run
  std::string reason;      // why it diverged
  int64_t step = 0, tokens = 0;
  std::optional<double> first_loss, loss;  // held-out, at step 0 and at the end; none: not finite,
                                           // or no held-out text
  // It has not diverged and its held-out loss, if there is one, is below that of step 0.
  bool converged() const;
};

// The config of the run that `seed` alone would be: under vary "init" the order of data stays.
Config config_of_seed(Config config, int64_t seed);

RunFolder trial_folder(const RunFolder& run, int64_t seed);
// In the order of attempt and seed. Error(kCheckpoint) for a trial.json that is none.
std::vector<TrialResult> read_trials(const RunFolder& run);
void write_trial(const RunFolder& run, const TrialResult& result);

// The trial with the lowest held-out loss (of equal ones the first); none when all have diverged.
std::optional<TrialResult> best_trial(const std::vector<TrialResult>& trials);
// For people: a line a trial, the best marked, and mean and spread of the losses.
std::string trial_table(const std::vector<TrialResult>& trials, int64_t best_seed);

}  // namespace lmtrain
