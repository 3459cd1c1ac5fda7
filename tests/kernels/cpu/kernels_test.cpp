// Every instruction set's kernels this processor can run, against plain loops in double.
#include "kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/kernel_values.h"
#include "support/isa.h"

namespace lmtrain {
namespace {

using testing::runs;

// Odd counts and those around the widest vector.
constexpr int64_t kSizes[] = {1, 2, 7, 15, 16, 17, 31, 33, 64, 129, 1000};

class CpuKernelsTest : public testing::IsaTest {
 protected:
  template <class T>
  static void expect_near(T actual, double expected, const std::string& what) {
    EXPECT_NEAR(value(actual), expected, tolerance<T>() * std::max(1.0, std::abs(expected)))
        << what;
  }

  template <class T>
  void check_rms_norm() const {
    const CpuKernels<T>& kernels = table<T>(GetParam());
    constexpr int64_t kRows = 3;
    constexpr float kEps = 1e-3F;
    for (const int64_t dim : kSizes) {
      const auto count = static_cast<size_t>(kRows * dim);
      const std::vector<T> x = normals<T>(kRows * dim, 1), dy = normals<T>(kRows * dim, 2);
      const std::vector<T> w = normals<T>(dim, 3);
      std::vector<T> y(count), dx(count);
      std::vector<float> rstd(kRows), dw(static_cast<size_t>(dim), 5.0F);  // backward adds to dw
      kernels.rms_norm_forward(x.data(), nullptr, w.data(), nullptr, y.data(), rstd.data(), kRows,
                               dim, kEps);
      kernels.rms_norm_backward(dy.data(), nullptr, x.data(), w.data(), rstd.data(), dx.data(),
                                dw.data(), kRows, dim);
      std::vector<double> expected_dw(static_cast<size_t>(dim), 5.0);
      for (int64_t row = 0; row < kRows; ++row) {
        const auto at = [&](const std::vector<T>& of, int64_t i) {
          return value(of[static_cast<size_t>(row * dim + i)]);
        };
        const auto weight = [&](int64_t i) { return value(w[static_cast<size_t>(i)]); };
        double squares = 0, dot = 0;
        for (int64_t i = 0; i < dim; ++i) {
          squares += at(x, i) * at(x, i);
          dot += at(dy, i) * weight(i) * at(x, i);
        }
        const double mean = squares / static_cast<double>(dim) + static_cast<double>(kEps);
        const double r = 1 / std::sqrt(mean);
        EXPECT_NEAR(rstd[static_cast<size_t>(row)], r, 1e-6 * r);
        for (int64_t i = 0; i < dim; ++i) {
          const auto index = static_cast<size_t>(row * dim + i);
          expect_near(y[index], at(x, i) * r * weight(i), "y");
          expect_near(
              dx[index],
              r * (at(dy, i) * weight(i) - at(x, i) * dot / (mean * static_cast<double>(dim))),
              "dx");
          expected_dw[static_cast<size_t>(i)] += at(dy, i) * at(x, i) * r;
        }
      }
      for (size_t i = 0; i < expected_dw.size(); ++i) {
        EXPECT_NEAR(dw[i], expected_dw[i], 1e-5 * std::max(1.0, std::abs(expected_dw[i])));
      }
    }
  }

  template <class T>
  void check_swiglu() const {
    const CpuKernels<T>& kernels = table<T>(GetParam());
    constexpr int64_t kRows = 2;
    for (const int64_t dim : kSizes) {
      const std::vector<T> gate_up = normals<T>(kRows * 2 * dim, 6, 4.0);
      const std::vector<T> dy = normals<T>(kRows * dim, 7);
      std::vector<T> y(dy.size()), y_again(dy.size()), d_gate_up(gate_up.size());
      for (int64_t row = 0; row < kRows; ++row) {
        const T* gate = gate_up.data() + row * 2 * dim;
        T* d_gate = d_gate_up.data() + row * 2 * dim;
        kernels.swiglu_forward(gate, gate + dim, y.data() + row * dim, dim);
        kernels.swiglu_backward(dy.data() + row * dim, gate, gate + dim, d_gate, d_gate + dim,
                                y_again.data() + row * dim, dim);
      }
      EXPECT_EQ(std::memcmp(y.data(), y_again.data(), y.size() * sizeof(T)), 0);
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t i = 0; i < dim; ++i) {
          const auto at_gate = static_cast<size_t>(row * 2 * dim + i);
          const auto at_up = at_gate + static_cast<size_t>(dim);
          const auto at_y = static_cast<size_t>(row * dim + i);
          const double gate = value(gate_up[at_gate]), up = value(gate_up[at_up]);
          const double s = 1 / (1 + std::exp(-gate)), g = value(dy[at_y]);
          expect_near(y[at_y], gate * s * up, "y");
          expect_near(d_gate_up[at_gate], g * up * (s + gate * s * (1 - s)), "d_gate");
          expect_near(d_gate_up[at_up], g * gate * s, "d_up");
        }
      }
    }
  }

  template <class T>
  void check_cross_entropy(float z_loss) const {
    const CpuKernels<T>& kernels = table<T>(GetParam());
    constexpr int64_t kRows = 3;
    constexpr float kGradScale = 0.5F;
    for (const int64_t vocab : kSizes) {
      const std::vector<T> logits = normals<T>(kRows * vocab, 8, 5.0);
      const std::vector<int64_t> targets = {vocab - 1, -100, 0};
      std::vector<T> gradient = logits, untouched = logits;
      std::vector<float> scratch(static_cast<size_t>(vocab));
      for (int64_t row = 0; row < kRows; ++row) {
        const int64_t target = targets[static_cast<size_t>(row)];
        const float actual = kernels.cross_entropy(gradient.data() + row * vocab, vocab, target,
                                                   kGradScale, z_loss, scratch.data());
        EXPECT_EQ(actual, kernels.cross_entropy(untouched.data() + row * vocab, vocab, target, 0,
                                                z_loss, nullptr));
        const auto logit = [&](int64_t i) {
          return value(logits[static_cast<size_t>(row * vocab + i)]);
        };
        double sum = 0;
        for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logit(i));
        const double loss = target < 0 ? 0 : std::log(sum) - logit(target);
        EXPECT_NEAR(actual, loss, 1e-5 * std::max(1.0, loss));
        for (int64_t i = 0; i < vocab; ++i) {
          const auto index = static_cast<size_t>(row * vocab + i);
          EXPECT_EQ(value(untouched[index]), logit(i));
          const double z_factor = 1 + 2 * static_cast<double>(z_loss) * std::log(sum);
          const double p = std::exp(logit(i)) / sum * z_factor - (i == target ? 1 : 0);
          expect_near(gradient[index], target < 0 ? 0 : p * static_cast<double>(kGradScale), "d");
        }
      }
    }
  }

  template <class T>
  void check_adamw() const {
    const CpuKernels<T>& kernels = table<T>(GetParam());
    AdamWConstants c{};
    c.lr = 0.01F;
    c.beta2 = 0.95F;
    c.one_minus_beta1 = 0.1F;
    c.one_minus_beta2 = 0.05F;
    c.eps = 1e-3F;
    c.weight_decay = 0.1F;
    c.bias_correction1 = 0.3F;
    c.sqrt_bias_correction2 = 0.4F;
    c.grad_scale = 0.25F;
    for (const int64_t count : kSizes) {
      const std::vector<float> w = normals<float>(count, 9), m = normals<float>(count, 10);
      const std::vector<float> g = normals<float>(count, 12);
      std::vector<float> v = normals<float>(count, 11);
      for (float& x : v) x = x * x;
      std::vector<float> master = w, exp_avg = m, exp_avg_sq = v;
      std::vector<T> working(w.size());
      kernels.adamw(master.data(), exp_avg.data(), exp_avg_sq.data(), g.data(), working.data(),
                    count, c);
      for (size_t i = 0; i < w.size(); ++i) {
        const double lr = c.lr, b1 = 1.0 - c.one_minus_beta1, b2 = c.beta2;
        const double grad = static_cast<double>(g[i]) * static_cast<double>(c.grad_scale);
        const double new_m = b1 * static_cast<double>(m[i]) + (1 - b1) * grad;
        const double new_v = b2 * static_cast<double>(v[i]) + (1 - b2) * grad * grad;
        const double new_w =
            static_cast<double>(w[i]) * (1 - lr * static_cast<double>(c.weight_decay)) -
            lr * (new_m / static_cast<double>(c.bias_correction1)) /
                (std::sqrt(new_v) / static_cast<double>(c.sqrt_bias_correction2) +
                 static_cast<double>(c.eps));
        expect_near(exp_avg[i], new_m, "m");
        expect_near(exp_avg_sq[i], new_v, "v");
        expect_near(master[i], new_w, "w");
        expect_near(working[i], static_cast<double>(master[i]), "working");
      }
    }
  }

  template <class T>
  void check_lion() const {
    const CpuKernels<T>& kernels = table<T>(GetParam());
    LionConstants c{};
    c.lr = 0.01F;
    c.one_minus_beta1 = 0.1F;
    c.one_minus_beta2 = 0.01F;
    c.weight_decay = 0.5F;
    c.grad_scale = 0.25F;
    for (const int64_t count : kSizes) {
      const std::vector<float> w = normals<float>(count, 9);
      std::vector<float> m = normals<float>(count, 10), g = normals<float>(count, 12);
      m[0] = g[0] = 0;  // sign(0) is 0
      std::vector<float> master = w, exp_avg = m;
      std::vector<T> working(w.size());
      kernels.lion(master.data(), exp_avg.data(), g.data(), working.data(), count, c);
      for (size_t i = 0; i < w.size(); ++i) {
        const double grad = static_cast<double>(g[i]) * static_cast<double>(c.grad_scale);
        const double u = 0.9 * static_cast<double>(m[i]) + 0.1 * grad;
        const double sign = u > 0 ? 1 : u < 0 ? -1 : 0;
        expect_near(exp_avg[i], 0.99 * static_cast<double>(m[i]) + 0.01 * grad, "m");
        expect_near(master[i], static_cast<double>(w[i]) * (1 - 0.01 * 0.5) - 0.01 * sign, "w");
        expect_near(working[i], static_cast<double>(master[i]), "working");
      }
    }
  }

  template <class T>
  void check_ademamix() const {
    const CpuKernels<T>& kernels = table<T>(GetParam());
    AdEMAMixConstants c{};
    c.lr = 0.01F;
    c.beta2 = 0.75F;
    c.eps = 1e-3F;
    c.weight_decay = 0.5F;
    c.alpha = 4.0F;
    c.one_minus_beta1 = 0.125F;
    c.one_minus_beta2 = 0.25F;
    c.one_minus_beta3 = 0.0625F;
    c.inverse_bias_correction1 = 2.0F;
    c.sqrt_bias_correction2 = 0.5F;
    c.grad_scale = 0.25F;
    for (const int64_t count : kSizes) {
      const std::vector<float> w = normals<float>(count, 9), fast = normals<float>(count, 10);
      const std::vector<float> slow = normals<float>(count, 16), g = normals<float>(count, 12);
      std::vector<float> square = normals<float>(count, 11);
      for (float& x : square) x = x * x;
      std::vector<float> master = w, new_fast = fast, new_slow = slow, new_square = square;
      std::vector<T> working(w.size());
      kernels.ademamix(master.data(), new_fast.data(), new_slow.data(), new_square.data(), g.data(),
                       working.data(), count, c);
      for (size_t i = 0; i < w.size(); ++i) {
        const double grad = 0.25 * static_cast<double>(g[i]);
        const double m1 = 0.875 * static_cast<double>(fast[i]) + 0.125 * grad;
        const double m2 = 0.9375 * static_cast<double>(slow[i]) + 0.0625 * grad;
        const double v = 0.75 * static_cast<double>(square[i]) + 0.25 * grad * grad;
        expect_near(new_fast[i], m1, "m1");
        expect_near(new_slow[i], m2, "m2");
        expect_near(new_square[i], v, "v");
        expect_near(master[i],
                    static_cast<double>(w[i]) * (1 - 0.01 * 0.5) -
                        0.01 * (m1 * 2 + 4 * m2) / (std::sqrt(v) / 0.5 + 1e-3),
                    "w");
        expect_near(working[i], static_cast<double>(master[i]), "working");
      }
    }
  }

  template <class T>
  void check_sums() const {
    const CpuKernels<T>& kernels = table<T>(GetParam());
    for (const int64_t count : kSizes) {
      const std::vector<T> x = normals<T>(count, 13);
      const std::vector<float> before = normals<float>(count, 14);
      std::vector<float> sum = before, first(x.size(), std::nanf(""));
      kernels.accumulate(x.data(), sum.data(), count, false);
      kernels.accumulate(x.data(), first.data(), count, true);
      double squares = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(sum[i], before[i] + static_cast<float>(value(x[i])));
        EXPECT_EQ(first[i], static_cast<float>(value(x[i])));
        squares += value(x[i]) * value(x[i]);
      }
      EXPECT_NEAR(kernels.sum_of_squares(x.data(), count), squares, 1e-13 * squares);
    }
    EXPECT_EQ(kernels.sum_of_squares(nullptr, 0), 0.0);
  }
};

TEST_P(CpuKernelsTest, RmsNorm) {
  check_rms_norm<float>();
  check_rms_norm<Bf16>();
}
TEST_P(CpuKernelsTest, Swiglu) {
  check_swiglu<float>();
  check_swiglu<Bf16>();
}
TEST_P(CpuKernelsTest, CrossEntropy) {
  for (const float z_loss : {0.0F, 0.03F}) {
    check_cross_entropy<float>(z_loss);
    check_cross_entropy<Bf16>(z_loss);
  }
}
TEST_P(CpuKernelsTest, AdamW) {
  check_adamw<float>();
  check_adamw<Bf16>();
}
TEST_P(CpuKernelsTest, Lion) {
  check_lion<float>();
  check_lion<Bf16>();
}
TEST_P(CpuKernelsTest, AdEMAMix) {
  check_ademamix<float>();
  check_ademamix<Bf16>();
}
TEST_P(CpuKernelsTest, AccumulateAndSumOfSquares) {
  check_sums<float>();
  check_sums<Bf16>();
}

// Large gradients' squares overflow fp32, 1e20^2 * n; small ones vanish beside large ones in it.
TEST_P(CpuKernelsTest, SumOfSquaresIsInDouble) {
  const CpuKernels<float>& kernels = table<float>(GetParam());
  const std::vector<float> large(100, 1e25F);
  EXPECT_NEAR(kernels.sum_of_squares(large.data(), 100), 1e52, 1e46);
  std::vector<float> mixed(10001, 1e-3F);
  mixed[0] = 1e3F;
  EXPECT_NEAR(kernels.sum_of_squares(mixed.data(), 10001), 1e6 + 1e-2, 1e-6);
}

TEST_P(CpuKernelsTest, RoundsToTheNearestBf16AndToEvenBetween) {
  const CpuKernels<Bf16>& kernels = table<Bf16>(GetParam());
  struct Case {
    uint32_t fp32;
    uint16_t bf16;
  };
  // AdamW with lr 0 stores the masters unchanged.
  const Case cases[] = {{0x3F800000, 0x3F80}, {0x3F808000, 0x3F80}, {0x3F818000, 0x3F82},
                        {0x3F808001, 0x3F81}, {0x3F807FFF, 0x3F80}, {0xBF818000, 0xBF82},
                        {0x7F7FFFFF, 0x7F80}, {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80},
                        {0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x00018000, 0x0002}};
  AdamWConstants c{};
  c.bias_correction1 = c.sqrt_bias_correction2 = c.eps = 1;
  for (const Case& one : cases) {
    // As many as fill a vector, and one more.
    std::vector<float> master(17, __builtin_bit_cast(float, one.fp32)), zeros(17), zeros2(17);
    const std::vector<float> grad(17);
    std::vector<Bf16> working(17);
    kernels.adamw(master.data(), zeros.data(), zeros2.data(), grad.data(), working.data(), 17, c);
    for (const Bf16& x : working) EXPECT_EQ(x.bits, one.bf16) << std::hex << one.fp32;
  }
  std::vector<float> master(17, std::numeric_limits<float>::quiet_NaN()), zeros(17), zeros2(17);
  const std::vector<float> grad(17);
  std::vector<Bf16> working(17);
  kernels.adamw(master.data(), zeros.data(), zeros2.data(), grad.data(), working.data(), 17, c);
  for (const Bf16& x : working) EXPECT_TRUE(std::isnan(value(x)));
}

TEST_P(CpuKernelsTest, NaNIsNotLost) {
  const CpuKernels<float>& kernels = table<float>(GetParam());
  for (const size_t index : {0U, 5U, 20U, 36U}) {  // in the vector part and in the rest
    std::vector<float> x = normals<float>(37, 15);
    x[index] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(kernels.sum_of_squares(x.data(), 37)));
    std::vector<float> sum(37);
    kernels.accumulate(x.data(), sum.data(), 37, false);
    EXPECT_TRUE(std::isnan(sum[index]));
    std::vector<float> logits = x;
    EXPECT_TRUE(
        std::isnan(kernels.cross_entropy(logits.data(), 37, /*target=*/10, 1.0F, 0.0F, nullptr)));
    AdamWConstants c{};
    c.lr = c.bias_correction1 = c.sqrt_bias_correction2 = c.eps = c.grad_scale = 1;
    std::vector<float> master(37), exp_avg(37), exp_avg_sq(37), working(37);
    kernels.adamw(master.data(), exp_avg.data(), exp_avg_sq.data(), x.data(), working.data(), 37,
                  c);
    for (size_t i = 0; i < 37; ++i) EXPECT_EQ(std::isnan(master[i]), i == index);
    LionConstants lion{};
    lion.lr = lion.one_minus_beta1 = lion.grad_scale = 1;
    master.assign(37, 0.0F);
    exp_avg.assign(37, 0.0F);
    kernels.lion(master.data(), exp_avg.data(), x.data(), working.data(), 37, lion);
    for (size_t i = 0; i < 37; ++i) EXPECT_EQ(std::isnan(master[i]), i == index);
    AdEMAMixConstants mix{};
    mix.lr = mix.eps = mix.grad_scale = mix.sqrt_bias_correction2 = 1;
    std::vector<float> slow(37);
    master.assign(37, 0.0F);
    exp_avg.assign(37, 0.0F);
    exp_avg_sq.assign(37, 0.0F);
    kernels.ademamix(master.data(), exp_avg.data(), slow.data(), exp_avg_sq.data(), x.data(),
                     working.data(), 37, mix);
    for (size_t i = 0; i < 37; ++i) EXPECT_EQ(std::isnan(master[i]), i == index);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuKernelsTest, ::testing::Values("baseline", "avx2", "avx512"),
                         [](const auto& isa) { return isa.param; });

TEST(CpuKernels, TheTableInUseIsTheBestThatRuns) {
  const std::string isa = cpu_kernels_isa();
  const std::string best = runs("avx512") ? "avx512" : runs("avx2") ? "avx2" : "baseline";
  const bool pairs = runs("avx512bf16");
  EXPECT_EQ(isa, runs("amx") ? "amx_bf16" : pairs ? "avx512_bf16" : best);
  EXPECT_EQ(&cpu_kernels<float>(), &table<float>(best));
  EXPECT_EQ(&cpu_kernels<Bf16>(), &table<Bf16>(best));
}

}  // namespace
}  // namespace lmtrain
