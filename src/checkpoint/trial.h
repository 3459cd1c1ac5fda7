// A trial of random restart: the beginning of a run from one seed. The best trial goes on.
//
// A trial has its folder RUN/trials/seed_N with a metrics.jsonl of its own. At its end its result
// is written there: trial.json, with a checksum (formats/strict_json.h). All decisions of random
// restart depend on these files alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

struct TrialResult {
  int64_t attempt = 0;  // from 0; trials of one attempt are compared
  int64_t seed = 0;
  bool diverged = false;   // the guard ended it, as a trial or as the run
  bool continued = false;  // it was the best, and became the run
  std::string reason;      // why it diverged
  // Identifies the data that it was trained on (formats/manifest.h).
  std::string fingerprint;
  // Updates, and their targets, when the trial ended.
  int64_t step = 0, tokens = 0;
  // Held-out losses, in nats a target; nothing: not finite, or no held-out text.
  std::optional<double> first_loss, loss;  // at step 0 and at the end
  // Returns whether the guard did not end the trial and, with held-out text, its last loss is
  // finite and below the loss of step 0.
  bool converged() const;
};

// Returns the config of the trial with this seed. With restart.vary "init" sets data.seed so that
// the order of data stays as in `config`.
Config config_of_seed(Config config, int64_t seed);

// Returns the folder of the trial with this seed, with the identity of the run. Creates nothing.
RunFolder trial_folder(const RunFolder& run, int64_t seed);
// Returns the results of the trials that have ended, sorted by attempt, then seed. Throws
// Error(kCheckpoint) for a trial.json that is damaged or lies in another seed's folder.
std::vector<TrialResult> read_trials(const RunFolder& run);
// Writes or replaces trial.json, and creates the trial's folder if need be. Throws Error(kIo).
void write_trial(const RunFolder& run, const TrialResult& result);

// Returns the trial with the lowest held-out loss; of equal losses the first. Leaves out trials
// that diverged, or whose last loss is not finite. Without held-out text returns the first that did
// not diverge. Returns nothing if no trial is left.
std::optional<TrialResult> best_trial(const std::vector<TrialResult>& trials);
// Returns a table for people, a line for each trial, with `best_seed` marked; below it mean,
// standard deviation and range of the losses.
std::string trial_table(const std::vector<TrialResult>& trials, int64_t best_seed);

}  // namespace lmtrain
