// Deals out the tensors of a model to the processes that update them (ZeRO stage 1, Rajbhandari et
// al. 2020, 1910.02054).
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

// Divides the flat layout among `count` owners. The owners get equal shares of the whole, and about
// equal shares of each chunk that a backward finishes at once (backward_chunks() of
// model/weight_pieces.h). Returns the cuts of each chunk, in the order of backward_chunks(). A
// chunk has `count` + 1 cuts, which ascend from its first element to its end and lie between whole
// tensors. Owner i has the range between the cuts i and i + 1 of every chunk; the range may be
// empty. Owner i is not rank i: for a power of two of owners, divided_at() (distributed/ranges.h)
// gives the ranges to the ranks in the order of their reversed bits. The function is pure.
//
// An owner takes tensors of a chunk until it has its part of the chunk. Its part is larger the more
// it lacks of an equal share of the whole. Chunks of few tensors are divided first, so that the
// other chunks can even out the shares. With more than four owners layers share a chunk, which has
// at least one layer for four owners. A tensor costs the time of its update: for an element-wise
// rule its elements; for Muon and SOAP the products of its matrices too.
std::vector<std::vector<int64_t>> cut_chunks(const ParameterLayout& layout,
                                             const OptimizerConfig& optimizer, int count);

}  // namespace lmtrain
