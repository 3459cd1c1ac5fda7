// Spans of a run ("500 steps", "10M" tokens, "2%", "90s") made into numbers and into events.
//
// Cadence tells whether something that happens "every" span (checkpoint, evaluation, log line)
// falls due on a step. It holds no state: the answer is a function of the progress before and after
// the step, so a resumed run acts on the same steps as one that was never interrupted. Only spans
// of time depend on how fast the machine is.
#pragma once

#include "config/config.h"

namespace lmtrain {

// `span` in the unit of the run: steps when `counts_steps`, else tokens. `total` is the run in that
// unit; a step is `tokens_per_step` tokens. Error(kConfig) for a span of time, which has no fixed
// place in a run.
double resolve_span(const Span& span, double total, bool counts_steps, double tokens_per_step);

// A span of epochs as one of tokens, `tokens_per_epoch` of them each; any other as it is.
Span epochs_in_tokens(const Span& span, double tokens_per_epoch);

// How far a run has come, in every unit a span may have. seconds: training time over all resumes.
struct Progress {
  double steps = 0;
  double tokens = 0;
  double percent = 0;
  double seconds = 0;
};

class Cadence {
 public:
  Cadence() = default;  // never due
  // Not of epochs: epochs_in_tokens makes those a span of tokens.
  explicit Cadence(const Span& every) : every_(every) {}

  // Whether a multiple of the span lies in (before, after]. Never when the span is 0.
  bool due(const Progress& before, const Progress& after) const;
  // How many multiples of the span lie there.
  double multiples(const Progress& before, const Progress& after) const;

 private:
  Span every_;
};

}  // namespace lmtrain
