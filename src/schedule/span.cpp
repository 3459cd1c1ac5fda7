// Units of a run's spans, see span.h.
#include "schedule/span.h"

#include <cmath>

#include "base/error.h"

namespace lmtrain {
namespace {

double in_unit(const Progress& progress, Span::Unit unit) {
  switch (unit) {
    case Span::Unit::kSteps:
      return progress.steps;
    case Span::Unit::kTokens:
      return progress.tokens;
    case Span::Unit::kPercent:
      return progress.percent;
    case Span::Unit::kSeconds:
      return progress.seconds;
    case Span::Unit::kEpochs:
      break;
  }
  throw Error(ErrorKind::kInternal, "a span has a unit that does not count steps of a run");
}

// Percentages come from divisions: 15 of 100 steps may read as 14.999999999999998 %, which is the
// third 5 % all the same.
double num_completed(double progress, double every) { return std::floor(progress / every + 1e-9); }

}  // namespace

double resolve_span(const Span& span, double total, bool counts_steps, double tokens_per_step) {
  switch (span.unit) {
    case Span::Unit::kSteps:
      return counts_steps ? span.value : span.value * tokens_per_step;
    case Span::Unit::kTokens:
      return counts_steps ? span.value / tokens_per_step : span.value;
    case Span::Unit::kPercent:
      return span.value * total / 100;
    case Span::Unit::kSeconds:
      throw Error(
          ErrorKind::kConfig,
          "a span of time has no fixed place in a run; give it in steps, tokens or percent");
    case Span::Unit::kEpochs:
      break;
  }
  throw Error(ErrorKind::kInternal, "a span has a unit that does not count steps of a run");
}

Span epochs_in_tokens(const Span& span, double tokens_per_epoch) {
  if (span.unit != Span::Unit::kEpochs) return span;
  return {span.value * tokens_per_epoch, Span::Unit::kTokens};
}

double Cadence::multiples(const Progress& before, const Progress& after) const {
  if (every_.value <= 0) return 0;
  return num_completed(in_unit(after, every_.unit), every_.value) -
         num_completed(in_unit(before, every_.unit), every_.value);
}

bool Cadence::due(const Progress& before, const Progress& after) const {
  return multiples(before, after) > 0;
}

}  // namespace lmtrain
