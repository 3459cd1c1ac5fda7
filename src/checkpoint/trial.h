// Random restart trains the beginning of a run from several seeds and goes on with the best one.
//
// Each such beginning is a trial. It has its folder RUN/trials/seed_N with a metrics.jsonl of its
// own. Its result, trial.json in that folder, is written when it has ended, with a checksum
// (formats/strict_json.h); all decisions of random restart depend on these files alone.
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
  bool diverged = false;   // the guard ended it, as a trial or later
  bool continued = false;  // it was the best and became the run
  std::string reason;      // why it diverged
  // Identifies the data that it was trained on (formats/manifest.h).
  std::string fingerprint;
  // Updates, and their targets, when the trial ended.
  int64_t step = 0, tokens = 0;
  // These are in nats per token. A loss is absent when it is not finite, or there is no held-out
  // text.
  std::optional<double> first_loss, loss;  // held-out, at step 0 and at the end
  // Returns whether the trial has not diverged, and its held-out loss, if there is held-out text,
  // is finite and below the loss of step 0.
  bool converged() const;
};

// Returns the config of the trial with this seed. With restart.vary "init" the order of data stays
// as in `config`: data.seed is set to its present value.
Config config_of_seed(Config config, int64_t seed);

// Returns the folder of the trial with this seed, with the identity of the run. Creates nothing.
RunFolder trial_folder(const RunFolder& run, int64_t seed);
// Returns the results of the trials that have ended, sorted by attempt, then seed. Throws
// Error(kCheckpoint) for a trial.json that is damaged or lies in another seed's folder.
std::vector<TrialResult> read_trials(const RunFolder& run);
// Writes or replaces trial.json, and creates the trial's folder if need be. Throws Error(kIo).
void write_trial(const RunFolder& run, const TrialResult& result);

// Returns the trial with the lowest held-out loss, the first of equal ones; trials that diverged,
// or whose loss at the end is not finite, are left out. Without held-out text it is the first that
// did not diverge. None when no trial is left.
std::optional<TrialResult> best_trial(const std::vector<TrialResult>& trials);
// Returns a table for people, a line for each trial. The one with `best_seed` is marked; below are
// mean, standard deviation and range of the losses.
std::string trial_table(const std::vector<TrialResult>& trials, int64_t best_seed);

}  // namespace lmtrain
