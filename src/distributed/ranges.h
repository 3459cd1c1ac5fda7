// Divides the elements of a flat tensor into ranges, one for each rank.
//
// Recursive halving (distributed/tree_sum.h) needs neighbouring ranges for ranks with equal lowest
// bits. So, for a power of two of ranks, the ranges lie in the order of the ranks' reversed bits:
// for four ranks 0, 2, 1, 3. Other numbers of ranks have theirs in the order of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "device/element_range.h"

namespace lmtrain {

// Returns the elements that are in both ranges; if there are none, an empty range whose `first` is
// in `b` or at an end of `b`.
ElementRange common(const ElementRange& a, const ElementRange& b);

// Holds a range of a flat tensor, and how it is divided among the ranks.
struct DividedRange {
  ElementRange elements;
  std::vector<ElementRange> ranges;  // by rank
};

// Returns the range from the first cut to the last. The range of each rank lies between two
// neighbouring `cuts`, which ascend; n + 1 cuts make n ranges. Equal cuts make an empty range.
DividedRange divided_at(const std::vector<int64_t>& cuts);
// Returns `elements`, divided into `count` ranges whose sizes differ by one at most.
DividedRange evenly_divided(const ElementRange& elements, int count);

}  // namespace lmtrain
