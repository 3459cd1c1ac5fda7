// Deals out the tensors of a model to the processes that update them (ZeRO stage 1, Rajbhandari et
// al. 2020, 1910.02054).
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

// Divides the flat layout among `count` owners, and returns the cuts of each chunk, in the order of
// backward_chunks() (model/module_weights.h). The updates of all owners take about equal time, over
// the whole layout and, less exactly, in each chunk. A chunk has `count` + 1 cuts: element offsets,
// ascending from its first element to its end, between whole tensors. Owner i has the elements from
// cut i to cut i + 1, perhaps none. Owner i is not rank i: divided_at() (distributed/ranges.h)
// gives the ranges to ranks.
//
// With more than four owners a chunk of layers has at least one layer for each four owners.
std::vector<std::vector<int64_t>> cut_chunks(const ParameterLayout& layout,
                                             const OptimizerConfig& optimizer, int count);

}  // namespace lmtrain
