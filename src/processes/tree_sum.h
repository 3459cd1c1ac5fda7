// The sum of a flat tensor over ranks, as a binary tree whose leaves are the ranks: neighbours
// first, then neighbours of those sums. The order of the additions does not depend on how the work
// is divided, so neither do the bits.
//
// Recursive halving and doubling (Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective
// Communication Operations in MPICH"): in round k a rank exchanges half of the range it still has
// with the rank that differs in bit k, and adds the half that it keeps; afterwards every rank owns
// the whole sum of 1/n of the elements, and these are gathered on the way back. Each rank sends
// 2 (n - 1) / n of the tensor, as a reduce-scatter and an all-gather do.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lmtrain {

// Sends `give` to the rank `partner` and receives `take` from it; both are contiguous, either may
// be empty.
using Exchange = std::function<void(int partner, const at::Tensor& give, const at::Tensor& take)>;

// `flat`: contiguous, one dimension, on the CPU. `count` is a power of two.
void tree_sum(const at::Tensor& flat, int rank, int count, const Exchange& exchange);

}  // namespace lmtrain
