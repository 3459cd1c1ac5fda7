// Betas and weight decay may change from one value to another over a whole run.
#pragma once

#include "config/enums.h"

namespace lmtrain {

// Returns the value at `done` of `total`, which are in one unit, steps or tokens: `begin` at 0,
// also where `total` is 0, and `end` from `total` on. Between them it follows a line or half a
// cosine.
double transition(EndShape shape, double begin, double end, double done, double total);

}  // namespace lmtrain
