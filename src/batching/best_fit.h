// Best-fit-decreasing packing: from the largest item to the smallest, each goes into the fullest
// bin that has room for it, or into a new bin. The number of bins is never more than 11/9 of the
// least possible number plus 1 (Johnson 1973; for documents in rows: Ding et al., "Fewer
// Truncations Improve Language Modeling", arXiv 2404.10830).
//
// The time is of order n + bins·log(capacity), since items of one size are handled together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lmtrain {

struct Packing {
  std::vector<uint32_t> bins;  // the bin of each item; bins are numbered as items first use them
  uint32_t num_bins = 0;
};

// Packs items of these sizes, each from 1 to `capacity`, into bins of `capacity`. There must be
// fewer than 2^32 items.
Packing pack_best_fit(std::span<const uint32_t> sizes, uint32_t capacity);

}  // namespace lmtrain
