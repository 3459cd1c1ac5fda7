// AdEMAMix' alpha and beta3 grow over the beginning of a run. `done` and `over` are both in steps
// or both in tokens. From `over` on the result is `end`; with `over` 0 there is no warm-up.
#pragma once

namespace lmtrain {

// Goes from `begin` to `end` along a line.
double linear_warmup(double begin, double end, double done, double over);

// Returns the decay rate of a moving average whose half-life goes along a line (Pagliardini et al.,
// 2409.03137, appendix A.1). The line begins at the half-life of the rate `begin` and ends at the
// half-life of the rate `end`. Rates near 1 are reached late. Rates are in [0, 1).
double half_life_warmup(double begin, double end, double done, double over);

}  // namespace lmtrain
