#include "distributed/ranges.h"

#include <algorithm>
#include <bit>

namespace lmtrain {
namespace {

// Returns the position of a rank's range: the bits of the rank reversed, for a power of two of
// ranks.
size_t position_of(size_t rank, size_t count) {
  if (!std::has_single_bit(count)) return rank;
  size_t position = 0;
  for (size_t bit = 1; bit < count; bit *= 2) position = 2 * position + ((rank & bit) != 0 ? 1 : 0);
  return position;
}

}  // namespace

ElementRange common(const ElementRange& a, const ElementRange& b) {
  const int64_t first = std::clamp(a.first, b.first, b.end());
  return {first, std::max<int64_t>(0, std::min(a.end(), b.end()) - first)};
}

DividedRange divided_at(const std::vector<int64_t>& cuts) {
  const size_t count = cuts.size() - 1;
  DividedRange divided{{cuts.front(), cuts.back() - cuts.front()}, {}};
  for (size_t rank = 0; rank < count; ++rank) {
    const size_t position = position_of(rank, count);
    divided.ranges.push_back({cuts[position], cuts[position + 1] - cuts[position]});
  }
  return divided;
}

DividedRange evenly_divided(const ElementRange& elements, int count) {
  std::vector<int64_t> cuts;
  for (int64_t i = 0; i <= count; ++i) cuts.push_back(elements.first + elements.size * i / count);
  return divided_at(cuts);
}

}  // namespace lmtrain
