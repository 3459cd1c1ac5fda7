// Values that grow over the beginning of a run: AdEMAMix' alpha and beta3. `done` and `over` are in
// one unit, steps or tokens; past `over` the last value holds, and `over` 0 is no warm-up at all.
#pragma once

namespace lmtrain {

// From `begin` to `end` along a line.
double linear_warmup(double begin, double end, double done, double over);

// A decay rate of a moving average, from `begin` to `end` with its half-life along a line
// (Pagliardini et al., 2409.03137, appendix A.1): rates near 1 are reached late.
double half_life_warmup(double begin, double end, double done, double over);

}  // namespace lmtrain
