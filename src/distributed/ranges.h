// Ranges of a flat tensor's elements, one for each rank.
//
// Recursive halving keeps, round by round, the elements of the ranks that agree in the lowest bits.
// These elements must be neighbours, so the ranges of a power of two of ranks lie in the order of
// the ranks' reversed bits: ranks 0, 2, 1, 3 where there are four.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lmtrain {

struct ElementRange {
  int64_t first = 0, size = 0;
  int64_t end() const { return first + size; }
  bool contains(int64_t element) const { return element >= first && element < end(); }
  bool operator==(const ElementRange&) const = default;

  // Returns a view of these elements of `flat`, which is one-dimensional.
  at::Tensor of(const at::Tensor& flat) const;
};

// Returns the elements that two ranges have in common; where there are none, an empty range that
// lies in the second or at an end of it.
ElementRange common(const ElementRange& a, const ElementRange& b);

// Returns the range of each rank, by rank. `cuts` ascend: the ranges lie between neighbours of
// them, so there is one rank fewer than cuts. Ranges may be empty.
std::vector<ElementRange> ranges_of_ranks(const std::vector<int64_t>& cuts);

// Returns `count` ranges that cover `size` elements and differ by one element at most, by rank.
std::vector<ElementRange> even_ranges(int64_t size, int count);

// A range of a flat tensor that the ranks share.
struct DividedRange {
  ElementRange elements;
  std::vector<ElementRange> ranges;  // by rank, as ranges_of_ranks() returns them: its part
};

// Returns the range from the first cut to the last, divided at the cuts.
DividedRange divided_at(const std::vector<int64_t>& cuts);
// Returns a range that is divided into `count` parts that differ by one element at most.
DividedRange evenly_divided(const ElementRange& elements, int count);

}  // namespace lmtrain
