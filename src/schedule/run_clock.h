// The one clock of a run: how long the run is and how far it has come. Learning rates, betas, caps,
// evaluations and checkpoints are functions of it alone, and it makes durations ("500 steps", "10M"
// tokens, "2%", "3 epochs") into numbers of the run. A plain value: nothing in it runs by itself.
//
// A run counts either steps or tokens: steps where `train.steps` is given, else tokens. What is in
// the unit of the run is in that unit. Tokens are targets.
#pragma once

#include "config/config.h"

namespace lmtrain {

struct RunClock {
  // How long the run is.
  double total = 0;  // in the unit of the run
  bool counts_steps = true;
  double tokens_per_step = 1;
  double tokens_per_epoch = 0;  // may stay 0 where no duration of epochs is asked about

  // How far it has come since its first step.
  double steps = 0;
  double tokens = 0;
  double seconds = 0;  // of training, over all resumes

  // How far the run has come, in the unit of the run.
  double done() const { return counts_steps ? steps : tokens; }
  // The same in percent of `total`. Above 100 past the end.
  double percent() const { return 100 * done() / total; }
  // The clock so many steps, tokens and seconds later, in the same run.
  RunClock after(double more_steps, double more_tokens, double more_seconds = 0) const;

  // `duration` in the unit of the run. Error(kConfig) for a duration of time, which has no fixed
  // position in a run.
  double resolve(const TrainingDuration& duration) const;
  // How many whole durations of `every` have passed, in the duration's own unit: 2 after 25 of
  // "10 steps". 0 where `every` is 0.
  double completed(const TrainingDuration& every) const;
};

}  // namespace lmtrain
