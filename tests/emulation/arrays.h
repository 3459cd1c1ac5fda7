// Arrays as the kernels get them: of any element type, aligned or not, with guards on both sides.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/common.cuh"

namespace lmtrain::emulated {

template <class T>
constexpr cuda::ElementType type_of() {
  if (std::is_same_v<T, float>) return cuda::ElementType::kFloat;
  return std::is_same_v<T, __half> ? cuda::ElementType::kHalf : cuda::ElementType::kBf16;
}

// By how much a result may differ, relative to max(1, its value): the rounding to T, and fp32 sums.
template <class T>
constexpr double tolerance() {
  if (std::is_same_v<T, float>) return 1e-5;
  return std::is_same_v<T, __half> ? 1e-3 : 4e-3;
}

// `shift` elements beyond 16-byte alignment. NaN until set, and NaN in the guards.
template <class T>
class Array {
 public:
  explicit Array(int64_t size, int64_t shift = 0) : size_(size) {
    storage_.resize(static_cast<size_t>(size + shift + 2 * kGuard), cuda::from_float<T>(NAN));
    const auto address = reinterpret_cast<uintptr_t>(storage_.data() + kGuard / 2);
    first_ = kGuard / 2 + static_cast<int64_t>((16 - address % 16) % 16 / sizeof(T)) + shift;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() {
    for (int64_t i = 0; i < static_cast<int64_t>(storage_.size()); ++i) {
      if (i < first_ || i >= first_ + size_) {
        EXPECT_TRUE(std::isnan(at(i - first_))) << "guard";
      }
    }
  }

  // Normal(0, scale), rounded to T.
  void fill(uint64_t seed, double scale = 1) {
    for (int64_t i = 0; i < size_; ++i) {
      set(i, scale * random_normal(seed, RandomStream::kInit, static_cast<uint64_t>(i)));
    }
  }
  void set(int64_t i, double x) { data()[i] = cuda::from_float<T>(static_cast<float>(x)); }
  double at(int64_t i) const {
    return static_cast<double>(cuda::to_float(storage_[static_cast<size_t>(first_ + i)]));
  }
  T* data() { return storage_.data() + first_; }
  int64_t size() const { return size_; }
  std::vector<double> values() const {
    std::vector<double> all;
    for (int64_t i = 0; i < size_; ++i) all.push_back(at(i));
    return all;
  }

 private:
  static constexpr int64_t kGuard = 32;
  std::vector<T> storage_;
  int64_t size_, first_ = 0;
};

inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                        double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << what << " at " << i;
  }
}

// Calls f(shift) for aligned and for unaligned arrays, each with the threads taking turns in both
// orders; what f returns, all the results, must be the same for both orders.
template <class F>
void in_every_way(const F& f) {
  for (const int64_t shift : {0, 1, 3}) {
    SCOPED_TRACE(shift);
    emulation::set_descending(false);
    const std::vector<double> ascending = f(shift);
    emulation::set_descending(true);
    const std::vector<double> descending = f(shift);
    emulation::set_descending(false);
    EXPECT_FALSE(ascending.empty());
    for (size_t i = 0; i < ascending.size(); ++i) {
      ASSERT_EQ(std::isnan(ascending[i]), std::isnan(descending[i]));
      if (!std::isnan(ascending[i])) {
        ASSERT_EQ(ascending[i], descending[i]) << "at " << i;
      }
    }
  }
}

inline std::vector<double> together(std::initializer_list<std::vector<double>> parts) {
  std::vector<double> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

using ElementTypes = ::testing::Types<float, __nv_bfloat16, __half>;

}  // namespace lmtrain::emulated
