// Gradients of weights are added, as soon as they are known, to the sums over micro-batches.
//
// The gradient of a matrix is a product of matrices. On a GPU that product can add its fp32 sums to
// memory that holds fp32 sums already, so that no tensor of the weights' dtype, and no pass that
// adds it, is needed (docs/kernels.md).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>

namespace lmtrain {

// Adds a_MK b_KN to sum_MN, or overwrites sum_MN by it where it is the `first`. sum is fp32 and
// contiguous; a and b are of one dtype, and have contiguous rows or columns. On a GPU it is one
// product, whose result is never rounded to the dtype of a and b. On a CPU it is product() and
// accumulate(). Autograd records nothing.
void add_product(const at::Tensor& a_MK, const at::Tensor& b_KN, const at::Tensor& sum_MN,
                 bool first);

// Says where the gradients of some weights are summed. While one lives, every weight_gradient() of
// the process adds to it. There is one at a time: the constructor throws Error(kInternal)
// otherwise. It is not thread-safe: a backward has one thread at a time.
class GradientSums {
 public:
  GradientSums();
  ~GradientSums();
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  // From now on gradients of `weight`, which is known by its address, are added to `sum`: fp32,
  // contiguous, of the same number of elements. With `first` the first gradient overwrites `sum`.
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

// Returns dy_NO' x_NI, the gradient of the weight of a product x weight'; an undefined tensor where
// it was added to the GradientSums that expect it.
at::Tensor weight_gradient(const at::Tensor& dy_NO, const at::Tensor& x_NI,
                           const at::Tensor& weight_OI);

}  // namespace lmtrain
