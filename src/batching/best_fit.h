// Packing by best fit, decreasing: from the largest item to the smallest, each goes into the bin
// with the least room that takes it, a new one if there is none. Never uses more than 11/9 of the
// fewest bins possible, and 1 (Johnson 1973; for documents in rows: Ding et al., "Fewer Truncations
// Improve Language Modeling", arXiv 2404.10830).
//
// Time n + bins·log(capacity): items of one size are handled together. Pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lmtrain {

struct Packing {
  std::vector<uint32_t> bins;  // of each item, numbered by their first item
  uint32_t num_bins = 0;
};

// Sizes from 1 to capacity; fewer than 2^32 items.
Packing pack_best_fit(std::span<const uint32_t> sizes, uint32_t capacity);

}  // namespace lmtrain
