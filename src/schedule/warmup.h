// AdEMAMix' alpha and beta3 grow over the beginning of a run. `done` and `over` are in one unit,
// steps or tokens; from `over` on the result is `end`, and with `over` 0 there is no warm-up.
#pragma once

namespace lmtrain {

// Goes from `begin` to `end` along a line.
double linear_warmup(double begin, double end, double done, double over);

// Returns the decay rate of a moving average whose half-life goes along a line from that of the
// rate `begin` to that of `end` (Pagliardini et al., 2409.03137, appendix A.1): rates near 1 are
// reached late. Rates are in [0, 1).
double half_life_warmup(double begin, double end, double done, double over);

}  // namespace lmtrain
