#include "schedule/transition.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace lmtrain {

double transition(EndShape shape, double begin, double end, double done, double total) {
  // Both are exact: a value that stays is the one that was given, to the last bit.
  if (begin == end || done <= 0) return begin;
  if (done >= total) return end;
  const double p = done / total;
  switch (shape) {
    case EndShape::kLinear:
      return (1 - p) * begin + p * end;
    case EndShape::kCosine:
      return end + (begin - end) * (1 + std::cos(std::numbers::pi * p)) / 2;
  }
  throw Error(ErrorKind::kInternal, "optimizer.end_shape has a shape without a formula");
}

}  // namespace lmtrain
