// Adds the gradients of weights to the sums over micro-batches as soon as they are known.
//
// The gradient of a matrix is a product of matrices. On a GPU the product itself adds to the fp32
// sums, without a tensor of the weights' dtype and a pass that adds it (docs/kernels.md).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>

namespace lmtrain {

// Adds a_MK b_KN to sum_MN; if `first`, overwrites sum_MN. The sum is fp32 and contiguous; a and b
// have one dtype, and contiguous rows or columns. On a GPU the product is never rounded to the
// dtype of a and b. On a CPU it is: product(), then accumulate(). Autograd records nothing.
void add_product(const at::Tensor& a_MK, const at::Tensor& b_KN, const at::Tensor& sum_MN,
                 bool first);

// Says where the gradients of some weights are summed. While it lives, weight_gradient() adds the
// gradients of the expected weights, from any thread of the process. The constructor throws
// Error(kInternal) if another one lives. It is not thread-safe: a backward has one thread.
class GradientSums {
 public:
  GradientSums();
  ~GradientSums();
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  // From now on gradients of `weight`, which its data pointer identifies, are added to `sum`: fp32,
  // contiguous, with as many elements. If `first`, the first gradient overwrites `sum`.
  void expect(const at::Tensor& weight, const at::Tensor& sum, bool first);
  // Returns whether a gradient of `weight` was added.
  bool has(const at::Tensor& weight) const;

 private:
  friend at::Tensor weight_gradient(const at::Tensor&, const at::Tensor&, const at::Tensor&);
  struct Sum {
    at::Tensor values;
    bool first;
    bool added = false;
  };
  std::map<const void*, Sum> sums_;  // by the weight's address
};

// On a CPU the gradient of a bias or of a norm is summed over positions in this many blocks. So it
// does not depend on the thread count.
inline constexpr int64_t kGradBlocks = 32;

// Returns dy_NO' x_NI, the gradient of the weight of a product x weight'. If GradientSums expect
// the weight, adds it there and returns an undefined tensor.
at::Tensor weight_gradient(const at::Tensor& dy_NO, const at::Tensor& x_NI,
                           const at::Tensor& weight_OI);

}  // namespace lmtrain
