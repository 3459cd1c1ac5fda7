// Durations of a run ("500 steps", "10M" tokens, "2%", "90s") made into numbers and into events.
//
// Cadence tells whether something that happens "every" duration (checkpoint, evaluation, log line)
// falls due on a step. It holds no state: the answer is a function of the progress before and after
// the step, so a resumed run acts on the same steps as one that was never interrupted. Only
// durations of time depend on how fast the machine is.
#pragma once

#include "config/config.h"

namespace lmtrain {

// `duration` in the unit of the run: steps when `counts_steps`, else tokens. `total` is the run in
// that unit; a step is `tokens_per_step` tokens. Error(kConfig) for a duration of time, which has
// no fixed place in a run.
double resolve_duration(const TrainingDuration& duration, double total, bool counts_steps,
                        double tokens_per_step);

// A duration of epochs as one of tokens, `tokens_per_epoch` of them each; any other as it is.
TrainingDuration epochs_in_tokens(const TrainingDuration& duration, double tokens_per_epoch);

// How far a run has come, in every unit a duration may have. seconds: training time over all
// resumes.
struct Progress {
  double steps = 0;
  double tokens = 0;
  double percent = 0;
  double seconds = 0;
};

class Cadence {
 public:
  Cadence() = default;  // never due
  // Not of epochs: epochs_in_tokens makes those a duration of tokens.
  explicit Cadence(const TrainingDuration& every) : every_(every) {}

  // Whether a multiple of the duration lies in (before, after]. Never when the duration is 0.
  bool due(const Progress& before, const Progress& after) const;
  // How many multiples of the duration lie there.
  double multiples(const Progress& before, const Progress& after) const;

 private:
  TrainingDuration every_;
};

}  // namespace lmtrain
