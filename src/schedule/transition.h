// Betas and weight decay may change from one value to another over a whole run.
#pragma once

#include "config/enums.h"

namespace lmtrain {

// Returns the value at `done` of `total`, both in steps or both in tokens. The value goes from
// `begin` at 0 along a line or half a cosine to `end` at `total`, and stays there. It is `begin`
// where `total` is 0.
double transition(EndShape shape, double begin, double end, double done, double total);

}  // namespace lmtrain
