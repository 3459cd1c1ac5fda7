// The reduce-scatter and the all-gather of a flat tensor: as a binary tree for a power of two of
// ranks, and around a ring for any number. For n even ranges each of the four functions sends (n -
// 1) / n of the tensor. They throw what `exchange` or `pass_on` throws.
//
// The ranks are the leaves of the tree: neighbours are added first, then neighbouring sums. The
// ranges change neither the order of the additions nor the bits. The algorithm is recursive halving
// and doubling (Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication
// Operations in MPICH"). In round k a rank exchanges elements with the rank that differs in bit k.
// It keeps the elements of the ranks that equal it in bits 0 to k, and adds what it receives to
// them.
//
// Around the ring (Patarasuk, Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations") the sum of a range begins at the rank after its owner. Each rank adds its elements
// and passes the sum on, until the sum reaches the owner.
//
// `flat` is contiguous and one-dimensional, and has one size and dtype in all ranks. `ranges[rank]`
// is the range of each rank, in the order of ranges.h; no two overlap.
#pragma once

#include <functional>

#include "distributed/ranges.h"

namespace lmtrain {

// Sends `give` to the rank `partner` and receives `take` from it; both are contiguous, either may
// be empty.
using Exchange = std::function<void(int partner, const at::Tensor& give, const at::Tensor& take)>;

// The `message` of tree_sum(), in elements, for tensors in host memory, where several sums run at
// once.
inline constexpr int64_t kHostMessage = int64_t{1} << 20;

// The same for tensors on a GPU: each message costs the launch of an exchange.
inline constexpr int64_t kDeviceMessage = int64_t{1} << 22;

// tree_sum() and tree_gather() throw Error(kInternal) unless the number of ranks is a power of two.
// tree_sum() throws it for ranges that overlap too.
//
// Replaces this rank's range of `flat` by its sum over all ranks; other elements are partial sums
// afterwards. A message has at most `message` >= 1 elements. Needs the memory of one message beside
// `flat`. All ranks call `exchange` equally often, some with empty tensors.
void tree_sum(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
              const Exchange& exchange, int64_t message);
// Copies the range of each rank to all ranks.
void tree_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                 const Exchange& exchange);

// Sends `give` to the next rank and receives `take` from the one before, at the same time; rank 0
// follows the last one. Both are contiguous, either may be empty.
using PassOn = std::function<void(const at::Tensor& give, const at::Tensor& take)>;

// Replaces this rank's range of `flat` by its sum over all ranks; other elements stay as they are.
void ring_sum(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
              const PassOn& pass_on);
// Copies the range of each rank to all ranks.
void ring_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                 const PassOn& pass_on);

}  // namespace lmtrain
