// Tensors in tests: random ones that are a function of their seed, and how far two are apart.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "device/torch_headers.h"

namespace lmtrain::testing {

// Normal(0, 1), rounded to `dtype`.
inline at::Tensor random_tensor(at::IntArrayRef shape, uint64_t seed,
                                at::ScalarType dtype = at::kFloat) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions(at::kDouble)).to(dtype);
}

// Integers in [low, high).
inline at::Tensor random_integers(int64_t low, int64_t high, at::IntArrayRef shape, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randint(low, high, shape, generator, at::TensorOptions(at::kLong));
}

// The measure of tests/reference: largest difference over max(1, largest value). Infinite where one
// of the two is not finite and the other is not the same.
inline double largest_difference(const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_EQ(actual.sizes(), expected.sizes());
  const at::Tensor a = actual.detach().to(at::kDouble).reshape(-1);
  const at::Tensor e = expected.detach().to(at::kDouble).reshape(-1);
  if (a.numel() == 0) return 0;
  const at::Tensor difference = at::where(a == e, at::zeros_like(a), (a - e).abs());
  const double largest = at::nan_to_num(difference, HUGE_VAL, HUGE_VAL).max().item<double>();
  return largest / std::max(1.0, e.abs().max().item<double>());
}

// The stricter measure: each element's difference over max(1, its own value).
inline double largest_elementwise_difference(const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_EQ(actual.sizes(), expected.sizes());
  const at::Tensor a = actual.detach().to(at::kDouble).reshape(-1);
  const at::Tensor e = expected.detach().to(at::kDouble).reshape(-1);
  if (a.numel() == 0) return 0;
  const at::Tensor difference = at::where(a == e, at::zeros_like(a), (a - e).abs());
  return at::nan_to_num(difference / e.abs().clamp_min(1.0), HUGE_VAL, HUGE_VAL)
      .max()
      .item<double>();
}

// Keeps a difference in the test's report (--gtest_output=xml).
inline void record_difference(const std::string& name, double difference) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", difference);
  ::testing::Test::RecordProperty(name, text);
}

// Same shape, dtype and bits; NaN equals the same NaN.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const at::Tensor x = a.detach().contiguous();
  const at::Tensor y = b.detach().contiguous();
  return std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

// Sets libtorch's threads for a scope.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace lmtrain::testing
