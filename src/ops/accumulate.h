// Sums the gradients of parts of a batch in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lmtrain {

// Adds `part`, of any shape and floating-point dtype, to `sum`: fp32, flat, contiguous, of the same
// number of elements, on the same device. If `first`, overwrites `sum` by `part`.
void accumulate(const at::Tensor& part, const at::Tensor& sum, bool first);

// A PartTree sums flat tensors, one of each part, as a binary tree. The parts come in their order,
// and their number is a power of two. A part's number in binary says which sums it completes: each
// trailing 1 is a subtree whose other half waits. Keeps log2(parts) tensors.
class PartTree {
 public:
  // Adds what waits for this part to elements [begin, begin + size) of `sum`, its own tensor.
  void complete(int64_t part, const at::Tensor& sum, int64_t begin, int64_t size) const;
  void complete(int64_t part, const at::Tensor& sum) const { complete(part, sum, 0, sum.numel()); }
  // Keeps a copy of `sum`, which is complete and not the last. complete() adds it when the part
  // comes that ends the other half.
  void keep(int64_t part, const at::Tensor& sum);

 private:
  std::vector<at::Tensor> waiting_;  // [i]: the finished sum of 2^i parts
};

}  // namespace lmtrain
