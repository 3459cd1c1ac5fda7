// Sums a flat tensor over ranks, and gathers it again: a reduce-scatter and an all-gather, as a
// binary tree for a power of two of ranks, and around a ring for any number. For n even ranges each
// of the four functions sends (n - 1) / n of the tensor.
//
// The tree has the ranks as its leaves: neighbours are added first, then neighbouring sums. The
// division of the work changes neither the order of the additions nor the bits. It is recursive
// halving and doubling (Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication
// Operations in MPICH"). In round k a rank exchanges elements with the rank that differs in bit k.
// It keeps the elements of the ranks that agree with it in the bits up to k, and adds the elements
// that it receives. After the last round it has the whole sum of its own range. On the way back the
// ranges are gathered.
//
// Around the ring (Patarasuk, Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations") the sum of a range begins at the rank that follows the owner of the range. Each
// rank adds its elements and passes the sum on, until it reaches the owner.
//
// `flat` is contiguous and one-dimensional. All ranks pass one size and dtype. `ranges` holds the
// range of each rank, in the order of ranges.h.
#pragma once

#include <functional>

#include "distributed/ranges.h"

namespace lmtrain {

// Sends `give` to the rank `partner` and receives `take` from it; both are contiguous, either may
// be empty.
using Exchange = std::function<void(int partner, const at::Tensor& give, const at::Tensor& take)>;

// The elements of a piece of a sum in host memory. Several sums are made at once there, and each
// has a piece in memory that the heap keeps.
inline constexpr int64_t kHostPiece = int64_t{1} << 20;

// tree_sum() and tree_gather() throw Error(kInternal) unless the number of ranks is a power of two.
//
// Makes the elements of this rank's range the sum over all ranks. All others are partial sums
// afterwards. Ranges may overlap: each of their ranks then has the sum of the common elements.
// It is exchanged in pieces of `piece` elements, 1 or more, so that beside `flat` a piece is in
// memory and not half of it. Pieces are as long as what two ranges have in common, and a range that
// lies within another goes whole. All ranks call `exchange` equally often, with empty tensors where
// one has fewer pieces.
void tree_sum(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
              const Exchange& exchange, int64_t piece);
// Copies the range of each rank to all ranks. The ranges must not overlap.
void tree_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                 const Exchange& exchange);

// Sends `give` to the next rank and receives `take` from the one before, at the same time; rank 0
// follows the last one. Both are contiguous, either may be empty.
using PassOn = std::function<void(const at::Tensor& give, const at::Tensor& take)>;

// Makes the elements of this rank's range the sum over all ranks; other elements stay as they are.
// Ranges may overlap; the common elements are then added in another order for each owner.
void ring_sum(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
              const PassOn& pass_on);
// Copies the range of each rank to all ranks. The ranges must not overlap.
void ring_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges, int rank,
                 const PassOn& pass_on);

}  // namespace lmtrain
