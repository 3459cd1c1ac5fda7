// The sum of a flat tensor over any number of ranks that form a ring (Patarasuk, Yuan 2009,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations"). The sum of each range
// goes from the rank that follows its owner once around to the owner, and each rank adds its
// elements as it passes. For n even ranges each function sends (n - 1) / n of the tensor.
//
// `flat` and `ranges` are as in tree_sum.h; the order of the ranges does not matter.
#pragma once

#include <functional>

#include "distributed/ranges.h"

namespace lmtrain {

// Sends `give` to the next rank and receives `take` from the one before, at the same time; rank 0
// follows the last one. Both are contiguous, either may be empty.
using PassOn = std::function<void(const at::Tensor& give, const at::Tensor& take)>;

// Makes the elements of this rank's range the sum over all ranks; others are left as they are.
// Ranges may overlap; the common elements are then added in another order for each owner.
void ring_sum(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
              const PassOn& pass_on);
// Copies the range of each rank to all ranks. The ranges must not overlap.
void ring_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                 const PassOn& pass_on);

}  // namespace lmtrain
