#include "schedule/transition.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace lmtrain {

double transition(const std::string& shape, double begin, double end, double done, double total) {
  // Both are exact: a value that stays is the one that was given, to the last bit.
  if (begin == end || done <= 0) return begin;
  if (done >= total) return end;
  const double p = done / total;
  if (shape == "linear") return (1 - p) * begin + p * end;
  if (shape == "cosine") return end + (begin - end) * (1 + std::cos(std::numbers::pi * p)) / 2;
  throw Error(ErrorKind::kConfig, "optimizer.end_shape: no such shape \"" + shape + "\"");
}

}  // namespace lmtrain
