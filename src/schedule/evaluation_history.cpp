#include "schedule/evaluation_history.h"

#include <cmath>

namespace lmtrain {

void note_evaluation(EvaluationHistory& history, const EvaluatedStep& evaluated,
                     const EvalConfig& config, bool saved) {
  ++history.without_gain;
  if (!std::isfinite(evaluated.loss)) return;
  if (saved) history.after_save.push_back(evaluated);
  const double min_delta = config.early_stop ? config.early_stop->min_delta : 0;
  std::optional<EvaluatedStep>& lowest = history.lowest;
  if (!lowest || lowest->loss - evaluated.loss > min_delta) history.without_gain = 0;
  if (!lowest || evaluated.loss < lowest->loss) lowest = evaluated;
}

}  // namespace lmtrain
