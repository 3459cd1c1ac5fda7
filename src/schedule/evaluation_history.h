// An EvaluationHistory is what a run remembers of its evaluations: the lowest held-out loss so far,
// and the number of evaluations since the loss fell. `eval.early_stop` ends the run by it, and
// `checkpoint.keep_best` saves a checkpoint at a new lowest loss. It is part of the training state,
// so a resumed run decides as an uninterrupted one. Losses are in nats a target.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// An evaluation after `step` updates.
struct EvaluatedStep {
  int64_t step = 0;
  double loss = 0;
  bool operator==(const EvaluatedStep&) const = default;
};

struct EvaluationHistory {
  std::optional<EvaluatedStep> lowest{};  // the first of equal ones; none: no finite loss yet
  int64_t without_gain = 0;               // evaluations without a gain, up to the last one
  // Evaluations that a signal had put off, so that they came after the checkpoint of their step:
  // the checkpoint does not hold its loss.
  std::vector<EvaluatedStep> after_save{};
  bool operator==(const EvaluationHistory&) const = default;
};

// Adds an evaluation. It has a gain when it is the first, or lowers the lowest loss by more than
// eval.early_stop.min_delta (0 without early_stop). A loss that is not finite has none. `saved`
// says whether there is a checkpoint of this step already.
void note_evaluation(EvaluationHistory& history, const EvaluatedStep& evaluated,
                     const EvalConfig& config, bool saved);

// Returns whether the run has its lowest loss at this step.
inline bool is_lowest(const EvaluationHistory& history, int64_t step) {
  return history.lowest && history.lowest->step == step;
}

}  // namespace lmtrain
