// Cautious decay in every instruction set's kernels: each weight is what the kernel makes of it
// with decay, or without, by the signs of weight and step.
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_values.h"
#include "kernels/cpu/kernels.h"
#include "support/isa.h"

namespace lmtrain {
namespace {

constexpr int64_t kSizes[] = {1, 7, 16, 33, 1000};

class CautiousKernels : public testing::IsaTest {
 protected:
  // `update(constants, master, working)` runs a kernel from the same moments and gradient.
  template <class T, class Constants, class Update>
  static void check(Constants c, const Update& update) {
    for (const int64_t count : kSizes) {
      const std::vector<float> w = normals<float>(count, 9);
      const auto updated = [&](float decay, bool cautious) {
        c.weight_decay = decay;
        c.cautious_decay = cautious;
        std::vector<float> master = w;
        std::vector<T> working(w.size());
        update(count, c, master.data(), working.data());
        for (size_t i = 0; i < w.size(); ++i)
          EXPECT_NEAR(value(working[i]), static_cast<double>(master[i]), 0.02);
        return master;
      };
      const std::vector<float> bare = updated(0, false), decayed = updated(0.5F, false);
      const std::vector<float> cautious = updated(0.5F, true);
      EXPECT_EQ(updated(0, true), bare);
      for (size_t i = 0; i < w.size(); ++i) {
        const bool towards_zero = (w[i] - bare[i]) * w[i] > 0;
        EXPECT_NEAR(cautious[i], towards_zero ? decayed[i] : bare[i], 1e-6) << i << " of " << count;
      }
    }
  }

  template <class T>
  static void check_all() {
    const CpuKernels<T>& kernels = table<T>(GetParam());
    const auto moment = [](int64_t count, uint64_t seed) { return normals<float>(count, seed); };
    const auto squared = [](int64_t count) {
      std::vector<float> v = normals<float>(count, 11);
      for (float& x : v) x = x * x + 0.1F;
      return v;
    };
    AdamWConstants adamw{};
    adamw.lr = 0.1F;
    adamw.beta2 = 0.95F;
    adamw.one_minus_beta1 = 0.1F;
    adamw.one_minus_beta2 = 0.05F;
    adamw.eps = 1e-3F;
    adamw.bias_correction1 = adamw.sqrt_bias_correction2 = adamw.grad_scale = 0.5F;
    check<T>(adamw, [&](int64_t count, const AdamWConstants& c, float* master, T* working) {
      std::vector<float> m = moment(count, 10), v = squared(count), g = moment(count, 12);
      kernels.adamw(master, m.data(), v.data(), g.data(), working, count, c);
    });
    LionConstants lion{};
    lion.lr = 0.1F;
    lion.one_minus_beta1 = 0.1F;
    lion.one_minus_beta2 = 0.01F;
    lion.grad_scale = 0.5F;
    check<T>(lion, [&](int64_t count, const LionConstants& c, float* master, T* working) {
      std::vector<float> m = moment(count, 10), g = moment(count, 12);
      m[0] = g[0] = 0;  // its step is zero, and it does not decay
      kernels.lion(master, m.data(), g.data(), working, count, c);
    });
    AdEMAMixConstants mix{};
    mix.lr = 0.1F;
    mix.beta2 = 0.95F;
    mix.alpha = 4.0F;
    mix.eps = 1e-3F;
    mix.one_minus_beta1 = mix.one_minus_beta2 = 0.1F;
    mix.one_minus_beta3 = 0.01F;
    mix.inverse_bias_correction1 = 2.0F;
    mix.sqrt_bias_correction2 = mix.grad_scale = 0.5F;
    check<T>(mix, [&](int64_t count, const AdEMAMixConstants& c, float* master, T* working) {
      std::vector<float> m = moment(count, 10), slow = moment(count, 16), v = squared(count);
      const std::vector<float> g = moment(count, 12);
      kernels.ademamix(master, m.data(), slow.data(), v.data(), g.data(), working, count, c);
    });
  }
};

TEST_P(CautiousKernels, DecayTowardsZeroAlone) {
  check_all<float>();
  check_all<Bf16>();
}

INSTANTIATE_TEST_SUITE_P(Isa, CautiousKernels, ::testing::Values("baseline", "avx2", "avx512"),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace lmtrain
