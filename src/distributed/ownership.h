// Deals out the tensors of a model to the processes that update them (ZeRO stage 1, Rajbhandari et
// al. 2020, 1910.02054).
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

// Divides the flat layout among `count` owners, so that each has an equal share of everything and
// about as much of each chunk that a backward finishes at once. Returns the cuts of each chunk, in
// the order of backward_chunks() (model/weight_pieces.h): `count` + 1 ends of ranges of whole
// tensors, with the gaps that follow them, from the chunk's first element to its end, never
// falling. Owner i has the range between the cuts i and i + 1 of every chunk; it may be empty.
// Owner i is not rank i: where `count` is a power of two, divided_at() (distributed/ranges.h)
// gives the ranges to the ranks in the order of their reversed bits. It is a pure function of its
// arguments.
//
// In a chunk an owner takes tensors as long as that brings it nearer to its part of what is left,
// which is in proportion to what it lacks of an equal share of the whole. Chunks of few tensors are
// divided first, so that the others even out what they cannot. Layers share a chunk where owners
// are more than four: it has at least a layer for every four of them. A tensor costs the time of
// its update: of an element-wise rule in proportion to its elements, of Muon and SOAP with the
// products of its matrices added.
std::vector<std::vector<int64_t>> cut_chunks(const ParameterLayout& layout,
                                             const OptimizerConfig& optimizer, int count);

}  // namespace lmtrain
