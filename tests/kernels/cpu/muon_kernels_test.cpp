// Every instruction set's kernels of Muon's update, against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_values.h"
#include "kernels/cpu/kernels.h"
#include "support/isa.h"

namespace lmtrain {
namespace {

class MuonKernels : public testing::IsaTest {
 protected:
  template <class T>
  static void check_momentum(float mu, bool nesterov) {
    MuonMomentumConstants c{};
    c.momentum = mu;
    c.one_minus_momentum = 1 - mu;
    c.grad_scale = 0.25F;
    c.nesterov = nesterov;
    for (const int64_t count : {1, 7, 16, 33, 1000}) {
      const std::vector<float> before = normals<float>(count, 1), grad = normals<float>(count, 2);
      std::vector<float> momentum = before;
      std::vector<T> direction(before.size());
      table<T>(GetParam()).muon_momentum(momentum.data(), grad.data(), direction.data(), count, c);
      for (size_t i = 0; i < before.size(); ++i) {
        const double g = 0.25 * static_cast<double>(grad[i]), b = static_cast<double>(mu);
        const double m = b * static_cast<double>(before[i]) + (1 - b) * g;
        const double u = nesterov ? (1 - b) * g + b * m : m;
        EXPECT_NEAR(momentum[i], m, 1e-5);
        EXPECT_NEAR(value(direction[i]), u, tolerance<T>() * std::max(1.0, std::abs(u)));
      }
    }
  }

  // Two rows, each with a factor of its own, or none.
  template <class T>
  static void check_step(bool cautious, bool with_factors) {
    MuonStepConstants c{};
    c.step = 0.1F;
    c.decay = 0.25F;
    c.cautious_decay = cautious;
    const float factors[] = {0.5F, 3};
    for (const int64_t columns : {1, 7, 16, 33, 1000}) {
      const std::vector<float> before = normals<float>(2 * columns, 3);
      const std::vector<T> orthogonal = normals<T>(2 * columns, 4);
      std::vector<float> master = before;
      table<T>(GetParam())
          .muon_step(master.data(), orthogonal.data(), with_factors ? factors : nullptr, /*rows=*/2,
                     columns, c);
      for (size_t i = 0; i < before.size(); ++i) {
        const auto row = static_cast<int64_t>(i) / columns;
        const double factor = with_factors ? static_cast<double>(factors[row]) : 1;
        const double w = static_cast<double>(before[i]), o = value(orthogonal[i]) * factor;
        const bool decays = !cautious || o * w > 0;
        EXPECT_NEAR(master[i], w * (decays ? 0.75 : 1) - 0.1 * o,
                    1e-5 * std::max(1.0, std::abs(w)));
      }
    }
  }
};

TEST_P(MuonKernels, MomentumAndDirection) {
  for (const float mu : {0.0F, 0.25F, 0.5F, 0.95F}) {
    for (const bool nesterov : {true, false}) {
      check_momentum<float>(mu, nesterov);
      check_momentum<Bf16>(mu, nesterov);
    }
  }
}

TEST_P(MuonKernels, StepAndDecay) {
  for (const bool cautious : {true, false}) {
    for (const bool with_factors : {true, false}) {
      check_step<float>(cautious, with_factors);
      check_step<Bf16>(cautious, with_factors);
    }
  }
}

// What is not a number reaches the weight that it belongs to, and no other.
TEST_P(MuonKernels, NanStaysWhereItIs) {
  const CpuKernels<float>& kernels = table<float>(GetParam());
  for (const size_t index : {0U, 5U, 20U, 36U}) {  // in the vector part and in the rest
    std::vector<float> grad = normals<float>(37, 5);
    grad[index] = std::numeric_limits<float>::quiet_NaN();
    MuonMomentumConstants momentum{0.95F, 0.05F, 1, true};
    std::vector<float> m(37), u(37), w(37);
    kernels.muon_momentum(m.data(), grad.data(), u.data(), 37, momentum);
    for (const bool cautious : {true, false}) {
      w.assign(37, 1.0F);
      kernels.muon_step(w.data(), u.data(), nullptr, 1, 37, {0.1F, 0.01F, cautious});
      for (size_t i = 0; i < 37; ++i) EXPECT_EQ(std::isnan(w[i]), i == index);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, MuonKernels, ::testing::Values("baseline", "avx2", "avx512"),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace lmtrain
