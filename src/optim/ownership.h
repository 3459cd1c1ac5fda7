// Deals out the tensors of a model to the processes that update them (ZeRO stage 1, Rajbhandari et
// al. 2020, 1910.02054).
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

// Cuts the flat layout into `count` ranges of whole tensors, with the gaps that follow them, and
// returns the `count` + 1 ends of the ranges: from 0 to flat_size(), never falling. It is a pure
// function of its arguments.
//
// From the first range on, each takes tensors as long as that brings its cost nearer to an equal
// share of what is left, and at least one; where tensors are fewer than ranges, the last ranges are
// empty. A tensor costs the time of its update: of an element-wise rule in proportion to its
// elements, of Muon and SOAP with the products of its matrices added.
std::vector<int64_t> cut_tensors(const ParameterLayout& layout, const OptimizerConfig& optimizer,
                                 int count);

}  // namespace lmtrain
