// Values that go from one to another over a whole run: betas and weight decay. `done` and `total`
// are in one unit, steps or tokens; past the end the last value holds.
#pragma once

#include "config/enums.h"

namespace lmtrain {

// Along a line, or along half a cosine.
double transition(EndShape shape, double begin, double end, double done, double total);

}  // namespace lmtrain
