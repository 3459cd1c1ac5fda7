// Every instruction set's attention this processor can run, against its definition in double.
#include "kernels/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/tables.h"
#include "support/isa.h"

namespace lmtrain {
namespace {

using testing::runs;

template <class T>
const CpuAttention<T>* table(const std::string& isa);
template <>
const CpuAttention<float>* table<float>(const std::string& isa) {
  if (isa == "avx512bf16" || isa == "amx") return nullptr;
  return isa == "avx512" ? &avx512::kAttentionFloat
         : isa == "avx2" ? &avx2::kAttentionFloat
                         : &baseline::kAttentionFloat;
}
template <>
const CpuAttention<Bf16>* table<Bf16>(const std::string& isa) {
  return isa == "amx"          ? &amx::kAttentionBf16
         : isa == "avx512bf16" ? &avx512bf16::kAttentionBf16
         : isa == "avx512"     ? &avx512::kAttentionBf16
         : isa == "avx2"       ? &avx2::kAttentionBf16
                               : &baseline::kAttentionBf16;
}

double value(float x) { return x; }
double value(Bf16 x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }
// Truncates to bf16, so that both element types compute on the same numbers.
void set(float& element, double x) {
  element =
      __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, static_cast<float>(x)) & 0xFFFF0000U);
}
void set(Bf16& element, double x) {
  element.bits = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, static_cast<float>(x)) >> 16);
}

// To the nearest, as kernels round.
double rounded(double x, float) { return static_cast<float>(x); }
double rounded(double x, Bf16) {
  uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(x));
  bits += 0x7FFF + (bits >> 16 & 1);
  return __builtin_bit_cast(float, bits & 0xFFFF0000U);
}

struct Shape {
  int64_t length, size, heads;
  bool rotated = false;
};

// A head's vectors [length][heads + 1][size + 1]: neither stride is the tightest.
template <class T>
struct Array {
  Shape shape;
  std::vector<T> values;

  Array(const Shape& of, int64_t heads, uint64_t seed)
      : shape{of.length, of.size, heads},
        values(static_cast<size_t>(of.length * (heads + 1) * (of.size + 1))) {
    for (size_t i = 0; i < values.size(); ++i) {
      set(values[i], random_normal(seed, RandomStream::kBench, i));
    }
  }
  HeadVectors<T> view() {
    return {values.data(), (shape.heads + 1) * (shape.size + 1), shape.size + 1};
  }
  HeadVectors<const T> view() const {
    return {values.data(), (shape.heads + 1) * (shape.size + 1), shape.size + 1};
  }
  double at(int64_t head, int64_t position, int64_t i) const {
    return value(view().at(head, position)[i]);
  }
};

template <class T>
struct Case {
  Shape shape;
  Array<T> q, k, v, dy, y, dq, dk, dv;
  std::vector<float> logsumexp;
  std::vector<float> cos, sin;  // [length][size / 2]

  explicit Case(const Shape& of)
      : shape(of),
        q(of, of.heads, 1),
        k(of, 1, 2),
        v(of, 1, 3),
        dy(of, of.heads, 4),
        y(of, of.heads, 5),
        dq(of, of.heads, 6),
        dk(of, 1, 7),
        dv(of, 1, 8),
        logsumexp(static_cast<size_t>(of.heads * (of.length + 1))) {
    for (int64_t i = 0; i < of.length * (of.size / 2); ++i) {
      const double angle =
          of.rotated ? random_normal(9, RandomStream::kBench, static_cast<uint64_t>(i)) : 0;
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }

  // A vector rotated by its position's angles, or with sign -1 back.
  std::vector<double> rotated(const std::vector<double>& x, int64_t position, double sign) const {
    const size_t half = x.size() / 2;
    std::vector<double> out(x.size());
    for (size_t i = 0; i < half; ++i) {
      const size_t angle = static_cast<size_t>(position) * half + i;
      const double c = cos[angle], s = sign * static_cast<double>(sin[angle]);
      out[i] = x[i] * c - x[half + i] * s;
      out[half + i] = x[half + i] * c + x[i] * s;
    }
    return out;
  }
  // A query or key as scores see it.
  std::vector<double> seen(const Array<T>& x, int64_t head, int64_t position) const {
    std::vector<double> vector;
    for (int64_t i = 0; i < shape.size; ++i) vector.push_back(x.at(head, position, i));
    vector = rotated(vector, position, 1);
    for (double& number : vector) number = rounded(number, T{});
    return vector;
  }

  float scale() const { return 1.0F / std::sqrt(static_cast<float>(shape.size)); }

  // `queries` queries at once; scratch of exactly the size asked for, full of NaN.
  void run(const CpuAttention<T>& kernels, int64_t queries) {
    AttentionTask<T> task = {};
    task.length = shape.length;
    task.size = shape.size;
    task.heads = shape.heads;
    task.scale = scale();
    task.cos = cos.data();
    task.sin = sin.data();
    task.q = std::as_const(q).view();
    task.k = std::as_const(k).view();
    task.v = std::as_const(v).view();
    task.y = y.view();
    task.logsumexp = logsumexp.data();
    task.logsumexp_stride = shape.length + 1;
    task.dy = std::as_const(dy).view();
    task.dq = dq.view();
    task.dk = dk.view();
    task.dv = dv.view();
    for (int64_t first = 0; first < shape.length; first += queries) {
      AttentionTask<T> some = task, next = task;
      some.first = first;
      some.last = next.first = std::min(shape.length, first + queries);
      next.last = shape.length;
      with_scratch(kernels.forward_scratch(some.last - first, shape.size, shape.heads),
                   [&](float* scratch) { kernels.forward(some, &next, scratch); });
    }
    with_scratch(kernels.backward_scratch(shape.length, shape.size),
                 [&](float* scratch) { kernels.backward(task, nullptr, scratch); });
  }

  template <class F>
  static void with_scratch(int64_t floats, const F& f) {
    constexpr int64_t kGuard = 16;
    const auto bytes = static_cast<size_t>(floats + kGuard) * sizeof(float);
    const std::unique_ptr<float, decltype(&std::free)> scratch(
        static_cast<float*>(std::aligned_alloc(64, bytes)), &std::free);
    std::memset(scratch.get(), 0xFF, bytes);
    f(scratch.get());
    for (int64_t i = 0; i < kGuard; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, scratch.get() + floats + i, sizeof bits);
      EXPECT_EQ(bits, 0xFFFFFFFFU) << "written beyond the scratch";
    }
  }
};

class CpuAttentionTest : public testing::IsaTest {
 protected:
  template <class F>
  static void for_each_type(const F& f) {
    if (table<float>(GetParam()) != nullptr) f(float{}, *table<float>(GetParam()));
    f(Bf16{}, *table<Bf16>(GetParam()));
  }
};

template <class T>
void expect_near(double actual, double expected, const std::string& what) {
  const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1.6e-2;
  EXPECT_NEAR(actual, expected, tolerance * std::max(1.0, std::abs(expected))) << what;
}

template <class T>
void check(Case<T>& c, const CpuAttention<T>& kernels) {
  c.run(kernels, 128);
  const int64_t length = c.shape.length, size = c.shape.size, heads = c.shape.heads;
  using Rows = std::vector<std::vector<double>>;
  const Rows zeros(static_cast<size_t>(length), std::vector<double>(static_cast<size_t>(size)));
  Rows dk = zeros, dv = zeros, keys;
  for (int64_t s = 0; s < length; ++s) keys.push_back(c.seen(c.k, 0, s));
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t t = 0; t < length; ++t) {
      const std::vector<double> query = c.seen(c.q, head, t);
      std::vector<double> weights;
      double sum = 0;
      for (int64_t s = 0; s <= t; ++s) {
        const double score = dot(query, keys[static_cast<size_t>(s)]);
        weights.push_back(std::exp(score * static_cast<double>(c.scale())));
        sum += weights.back();
      }
      EXPECT_NEAR(c.logsumexp[static_cast<size_t>(head * (length + 1) + t)], std::log(sum),
                  1e-5 * std::max(1.0, std::abs(std::log(sum))));
      std::vector<double> y(static_cast<size_t>(size)), dq(static_cast<size_t>(size));
      double delta = 0;
      for (int64_t i = 0; i < size; ++i) {
        double& yi = y[static_cast<size_t>(i)];
        for (int64_t s = 0; s <= t; ++s)
          yi += weights[static_cast<size_t>(s)] / sum * c.v.at(0, s, i);
        expect_near<T>(c.y.at(head, t, i), yi, "y");
        delta += yi * c.dy.at(head, t, i);
      }
      for (int64_t s = 0; s <= t; ++s) {
        const double weight = weights[static_cast<size_t>(s)] / sum;
        double dp = 0;
        for (int64_t i = 0; i < size; ++i) dp += c.dy.at(head, t, i) * c.v.at(0, s, i);
        const double ds = weight * (dp - delta) * static_cast<double>(c.scale());
        for (int64_t i = 0; i < size; ++i) {
          const auto position = static_cast<size_t>(s), number = static_cast<size_t>(i);
          dq[number] += ds * keys[position][number];
          dk[position][number] += ds * query[number];
          dv[position][number] += weight * c.dy.at(head, t, i);
        }
      }
      dq = c.rotated(dq, t, -1);
      for (int64_t i = 0; i < size; ++i) {
        expect_near<T>(c.dq.at(head, t, i), dq[static_cast<size_t>(i)], "dq");
      }
    }
  }
  for (int64_t s = 0; s < length; ++s) {
    const auto position = static_cast<size_t>(s);
    const std::vector<double> d_key = c.rotated(dk[position], s, -1);
    for (int64_t i = 0; i < size; ++i) {
      expect_near<T>(c.dk.at(0, s, i), d_key[static_cast<size_t>(i)], "dk");
      expect_near<T>(c.dv.at(0, s, i), dv[position][static_cast<size_t>(i)], "dv");
    }
  }
}

TEST_P(CpuAttentionTest, EqualsItsDefinition) {
  // Lengths and sizes around a block, a vector and a pair; odd ones; grouped queries; rotated.
  const Shape shapes[] = {{1, 2, 1},          {1, 64, 2},       {2, 4, 1},       {7, 16, 3},
                          {15, 18, 1},        {16, 32, 2},      {33, 10, 1},     {63, 64, 1},
                          {64, 48, 1},        {65, 34, 2},      {129, 8, 4},     {150, 80, 1},
                          {257, 16, 2},       {70, 256, 1},     {1, 2, 1, true}, {17, 6, 3, true},
                          {130, 64, 2, true}, {66, 70, 1, true}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.length << " " << shape.size << " " << shape.heads);
    for_each_type([&]<class T>(T, const CpuAttention<T>& kernels) {
      Case<T> c(shape);
      check(c, kernels);
    });
  }
}

// The comparison above sees a key too many or too few.
TEST_P(CpuAttentionTest, DiffersFromAnotherDefinition) {
  for_each_type([&]<class T>(T, const CpuAttention<T>& kernels) {
    Case<T> c({65, 16, 1}), other({65, 16, 1});
    set(other.k.view().at(0, 3)[0], 4.0);
    c.run(kernels, 64);
    other.run(kernels, 64);
    for (int64_t t = 0; t < 65; ++t) {
      double difference = 0;
      for (int64_t i = 0; i < 16; ++i) {
        difference = std::max(difference, std::abs(c.y.at(0, t, i) - other.y.at(0, t, i)));
      }
      EXPECT_EQ(difference > 0, t >= 3) << t;
    }
  });
}

TEST_P(CpuAttentionTest, BitsDoNotDependOnHowQueriesAreCut) {
  for_each_type([&]<class T>(T, const CpuAttention<T>& kernels) {
    Case<T> whole({300, 24, 2}), cut({300, 24, 2});
    whole.run(kernels, 320);
    cut.run(kernels, 64);
    EXPECT_EQ(whole.logsumexp, cut.logsumexp);
    EXPECT_EQ(0, std::memcmp(whole.y.values.data(), cut.y.values.data(),
                             whole.y.values.size() * sizeof(T)));
  });
}

// Scores in the hundreds: exp of the differences alone stays finite.
TEST_P(CpuAttentionTest, LargeScoresDoNotOverflow) {
  for_each_type([&]<class T>(T, const CpuAttention<T>& kernels) {
    Case<T> c({70, 16, 1});
    for (T& x : c.q.values) set(x, 40 * value(x));
    for (T& x : c.dy.values) set(x, value(x) / 256);  // gradients are as large as q
    check(c, kernels);
  });
}

TEST_P(CpuAttentionTest, NaNIsNotLost) {
  for_each_type([&]<class T>(T, const CpuAttention<T>& kernels) {
    for (const int which : {0, 1, 2, 3}) {
      Case<T> c({130, 16, 1});
      Array<T>& input = which == 0 ? c.q : which == 1 ? c.k : which == 2 ? c.v : c.dy;
      set(input.view().at(0, 100)[5], std::numeric_limits<double>::quiet_NaN());
      c.run(kernels, 64);
      EXPECT_EQ(std::isnan(c.y.at(0, 100, 5)), which != 3);
      EXPECT_FALSE(std::isnan(c.y.at(0, 63, 5)));  // of an earlier block
      EXPECT_TRUE(std::isnan(c.dq.at(0, 100, 5)));
    }
  });
}

// Rows of scores go through softmax some at a time; position 112 is the first of such a group on
// every instruction set, and its maximum is of two blocks of keys.
TEST_P(CpuAttentionTest, ANaNQueryChangesNoOther) {
  for_each_type([&]<class T>(T, const CpuAttention<T>& kernels) {
    Case<T> sound({130, 16, 1}), spoiled({130, 16, 1});
    set(spoiled.q.view().at(0, 112)[5], std::numeric_limits<double>::quiet_NaN());
    sound.run(kernels, 64);
    spoiled.run(kernels, 64);
    for (int64_t t = 0; t < 130; ++t) {
      for (int64_t i = 0; i < 16; ++i) {
        if (t == 112) {
          EXPECT_TRUE(std::isnan(spoiled.y.at(0, t, i)));
        } else {
          EXPECT_EQ(spoiled.y.at(0, t, i), sound.y.at(0, t, i)) << t;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuAttentionTest,
                         ::testing::Values("baseline", "avx2", "avx512", "avx512bf16", "amx"),
                         [](const auto& isa) { return isa.param; });

TEST(CpuAttention, TheTableInUseIsTheBestThatRuns) {
  const std::string best = runs("avx512") ? "avx512" : runs("avx2") ? "avx2" : "baseline";
  EXPECT_EQ(&cpu_attention<float>(), table<float>(best));
  const bool pairs = runs("avx512bf16") && __builtin_cpu_is("intel") == 0;
  EXPECT_EQ(&cpu_attention<Bf16>(), table<Bf16>(runs("amx") ? "amx" : pairs ? "avx512bf16" : best));
}

}  // namespace
}  // namespace lmtrain
