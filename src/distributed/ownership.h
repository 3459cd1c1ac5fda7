// Deals out the tensors of a model to the processes that update them (ZeRO stage 1, Rajbhandari et
// al. 2020, 1910.02054).
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

// Divides the flat layout among `count` owners, and returns the cuts of each chunk, in the order of
// backward_chunks() (model/weight_pieces.h). The update takes each owner about as long as any
// other, over the whole layout and about so in each chunk. A chunk has `count` + 1 cuts: element
// offsets, ascending from its first element to its end, between whole tensors. Owner i has the
// elements from cut i to cut i + 1, perhaps none. Owner i is not rank i: divided_at()
// (distributed/ranges.h) gives the ranges to ranks.
//
// With more than four owners layers share a chunk, one layer for each four owners at least.
std::vector<std::vector<int64_t>> cut_chunks(const ParameterLayout& layout,
                                             const OptimizerConfig& optimizer, int count);

}  // namespace lmtrain
