// Sums the gradients of parts of a batch in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lmtrain {

// Adds `part`, of any shape and floating-point dtype, to `sum`: fp32, flat, contiguous, with as
// many elements, on the same device. If `first`, overwrites `sum` by `part`.
void accumulate(const at::Tensor& part, const at::Tensor& sum, bool first);

// A PartTree sums one flat tensor for each of 2^n parts as a binary tree, with n tensors of memory.
// For parts 0, 1, ... in order the caller writes the part's tensor to `sum`, calls complete(), and,
// except for the last part, keep(). After the last part `sum` is the whole sum.
class PartTree {
 public:
  // Adds to elements [begin, begin + size) of `sum` the kept sums of the subtrees that `part`
  // completes. Call it once for each element of each part.
  void complete(int64_t part, const at::Tensor& sum, int64_t begin, int64_t size) const;
  void complete(int64_t part, const at::Tensor& sum) const { complete(part, sum, 0, sum.numel()); }
  // Keeps a copy of `sum` after complete(), for the part that completes the next larger subtree.
  void keep(int64_t part, const at::Tensor& sum);

 private:
  std::vector<at::Tensor> waiting_;  // [i]: the finished sum of 2^i parts
};

}  // namespace lmtrain
