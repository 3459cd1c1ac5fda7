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

// Returns the range of each rank, indexed by rank. Each lies between two neighbouring `cuts`, which
// ascend; n + 1 cuts make n ranges. Equal cuts make an empty range.
std::vector<ElementRange> ranges_of_ranks(const std::vector<int64_t>& cuts);

// Returns `count` ranges, indexed by rank, that cover `size` elements. Sizes differ by one at most.
std::vector<ElementRange> even_ranges(int64_t size, int count);

// Holds a range of a flat tensor, and how it is divided among the ranks.
struct DividedRange {
  ElementRange elements;
  std::vector<ElementRange> ranges;  // of each rank, as from ranges_of_ranks()
};

// Returns the range from the first cut to the last, divided as ranges_of_ranks() says.
DividedRange divided_at(const std::vector<int64_t>& cuts);
// Returns `elements`, divided into `count` ranges whose sizes differ by one at most.
DividedRange evenly_divided(const ElementRange& elements, int count);

}  // namespace lmtrain
