// The CUDA kernels of gradients, updates and new weights, emulated, against loops in double.
#include "arrays.h"
#include "base/random.h"
#include "kernels/cuda/random.h"

namespace lmtrain::emulated {
namespace {

// By element type of the gradient, or of the working weights.
template <class T>
class UpdateKernels : public ::testing::Test {};
TYPED_TEST_SUITE(UpdateKernels, ElementTypes);

// Not a multiple of a pack; fewer elements than one; more than a block has.
const std::vector<int64_t> kCounts = {1, 3, 64, 1027, 5000};

TYPED_TEST(UpdateKernels, Accumulate) {
  using T = TypeParam;
  for (const int64_t count : kCounts) {
    in_every_way([&](int64_t shift) {
      Array<T> first(count, shift), second(count, shift);
      Array<float> sum(count, shift);
      first.fill(1);
      second.fill(2);
      std::vector<double> expected = first.values();
      const cuda::Call call{type_of<T>(), nullptr};
      cuda::accumulate(call, first.data(), sum.data(), count, true);  // whatever was there: NaN
      expect_near(sum.values(), expected, 0, "first");
      cuda::accumulate(call, second.data(), sum.data(), count, false);
      for (int64_t i = 0; i < count; ++i) expected[static_cast<size_t>(i)] += second.at(i);
      expect_near(sum.values(), expected, 1e-6, "sum");
      return sum.values();
    });
  }
}

// Log and cosine are the host's here, so the numbers are those of the host.
TEST(RandomKernels, NormalsAreThoseOfTheHost) {
  for (const int64_t count : kCounts) {
    in_every_way([&](int64_t shift) {
      Array<float> made(count, shift);
      const uint64_t key = hash_combine(7, static_cast<uint64_t>(RandomStream::kInit));
      cuda::random_normals({cuda::ElementType::kFloat, nullptr}, made.data(), count, key, 0.02);
      std::vector<double> expected;
      for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
        expected.push_back(static_cast<double>(
            static_cast<float>(0.02 * random_normal(7, RandomStream::kInit, i))));
      }
      expect_near(made.values(), expected, 0, "normals");
      return made.values();
    });
  }
}

// What an update rule works on.
template <class T>
struct Weights {
  Weights(int64_t count, int64_t shift)
      : master(count, shift),
        fast(count, shift),
        slow(count, shift),
        square(count, shift),
        grad(count, shift),
        working(count, shift) {
    master.fill(1);
    fast.fill(2);
    slow.fill(3);
    grad.fill(5);
    fast.set(0, 0);
    grad.set(0, 0);  // Lion's sign of 0 is 0
    for (int64_t i = 0; i < count; ++i) square.set(i, fast.at(i) * fast.at(i) + 0.1);
  }

  // `expected(i)`: the new master. The working weights are its rounding.
  template <class F>
  void expect_updated(const F& expected) const {
    std::vector<double> masters, rounded;
    for (int64_t i = 0; i < master.size(); ++i) {
      masters.push_back(expected(i));
      rounded.push_back(static_cast<double>(cuda::rounded<T>(static_cast<float>(master.at(i)))));
    }
    expect_near(master.values(), masters, 1e-5, "master");
    expect_near(working.values(), rounded, 0, "working");
  }

  Array<float> master, fast, slow, square, grad;
  Array<T> working;
};

double mixed(double a, double b, float by) { return a + (b - a) * static_cast<double>(by); }

// What a weight is before its step of the sign of -u, at lr 0.01 and a decay of 0.5.
template <class Constants>
double decayed(const Constants& c, double w, double u) {
  return c.cautious_decay && u * w <= 0 ? w : w * (1 - static_cast<double>(c.lr) * 0.5);
}

// Checks an update rule with every count, shift and order: test(constants, count, shift), once with
// constants that decay every weight and once with cautious ones, returns what was computed.
template <class Constants, class Test>
void in_every_case(Constants c, const Test& test) {
  for (const bool cautious : {false, true}) {
    c.cautious_decay = cautious;
    for (const int64_t count : kCounts)
      in_every_way([&](int64_t shift) { return test(c, count, shift); });
  }
}

TYPED_TEST(UpdateKernels, AdamW) {
  using T = TypeParam;
  AdamWConstants constants{};
  constants.lr = 0.01F;
  constants.beta2 = 0.75F;
  constants.one_minus_beta1 = 0.125F;
  constants.one_minus_beta2 = 0.25F;
  constants.eps = 1e-3F;
  constants.weight_decay = 0.5F;
  constants.bias_correction1 = 0.3F;
  constants.sqrt_bias_correction2 = 0.4F;
  constants.grad_scale = 0.25F;
  in_every_case(constants, [&](const auto& c, int64_t count, int64_t shift) {
    const Weights<T> before(count, shift);
    Weights<T> w(count, shift);
    cuda::adamw({type_of<T>(), nullptr}, w.master.data(), w.fast.data(), w.square.data(),
                w.grad.data(), w.working.data(), count, &c);
    w.expect_updated([&](int64_t i) {
      const double g = before.grad.at(i) * 0.25;
      const double m = mixed(before.fast.at(i), g, c.one_minus_beta1);
      const double v = mixed(before.square.at(i), g * g, c.one_minus_beta2);
      EXPECT_NEAR(w.fast.at(i), m, 1e-6);
      EXPECT_NEAR(w.square.at(i), v, 1e-5 * std::max(1.0, v));
      const double lr = c.lr;
      return decayed(c, before.master.at(i), m) -
             lr * (m / static_cast<double>(c.bias_correction1)) /
                 (std::sqrt(v) / static_cast<double>(c.sqrt_bias_correction2) + 1e-3);
    });
    return together({w.master.values(), w.working.values(), w.fast.values(), w.square.values()});
  });
}

TYPED_TEST(UpdateKernels, Lion) {
  using T = TypeParam;
  LionConstants constants{};
  constants.lr = 0.01F;
  constants.one_minus_beta1 = 0.125F;
  constants.one_minus_beta2 = 0.0625F;
  constants.weight_decay = 0.5F;
  constants.grad_scale = 0.25F;
  in_every_case(constants, [&](const auto& c, int64_t count, int64_t shift) {
    const Weights<T> before(count, shift);
    Weights<T> w(count, shift);
    cuda::lion({type_of<T>(), nullptr}, w.master.data(), w.fast.data(), w.grad.data(),
               w.working.data(), count, &c);
    w.expect_updated([&](int64_t i) {
      const double g = before.grad.at(i) * 0.25;
      const double u = mixed(before.fast.at(i), g, c.one_minus_beta1);
      EXPECT_NEAR(w.fast.at(i), mixed(before.fast.at(i), g, c.one_minus_beta2), 1e-6);
      const double lr = c.lr;
      return decayed(c, before.master.at(i), u) - lr * (u > 0 ? 1 : u < 0 ? -1 : 0);
    });
    return together({w.master.values(), w.working.values(), w.fast.values()});
  });
}

TYPED_TEST(UpdateKernels, AdEMAMix) {
  using T = TypeParam;
  AdEMAMixConstants constants{};
  constants.lr = 0.01F;
  constants.beta2 = 0.75F;
  constants.eps = 1e-3F;
  constants.weight_decay = 0.5F;
  constants.alpha = 4.0F;
  constants.one_minus_beta1 = 0.125F;
  constants.one_minus_beta2 = 0.25F;
  constants.one_minus_beta3 = 0.0625F;
  constants.inverse_bias_correction1 = 2.0F;
  constants.sqrt_bias_correction2 = 0.5F;
  constants.grad_scale = 0.25F;
  in_every_case(constants, [&](const auto& c, int64_t count, int64_t shift) {
    const Weights<T> before(count, shift);
    Weights<T> w(count, shift);
    cuda::ademamix({type_of<T>(), nullptr}, w.master.data(), w.fast.data(), w.slow.data(),
                   w.square.data(), w.grad.data(), w.working.data(), count, &c);
    w.expect_updated([&](int64_t i) {
      const double g = before.grad.at(i) * 0.25;
      const double fast = mixed(before.fast.at(i), g, c.one_minus_beta1);
      const double slow = mixed(before.slow.at(i), g, c.one_minus_beta3);
      const double v = mixed(before.square.at(i), g * g, c.one_minus_beta2);
      EXPECT_NEAR(w.slow.at(i), slow, 1e-6);
      const double lr = c.lr;
      return decayed(c, before.master.at(i), fast * 2 + 4 * slow) -
             lr * (fast * 2 + 4 * slow) / (std::sqrt(v) / 0.5 + 1e-3);
    });
    return together({w.master.values(), w.working.values(), w.slow.values()});
  });
}

TEST(SumOfSquares, IsThatOfEveryElement) {
  for (const int64_t count : kCounts) {
    in_every_way([&](int64_t shift) {
      Array<float> x(count, shift);
      std::vector<double> partial(cuda::kSumOfSquaresPartials, NAN);
      double result = NAN, expected = 0;
      x.fill(1);
      for (const double value : x.values()) expected += value * value;
      const cuda::Call call{cuda::ElementType::kFloat, nullptr};
      cuda::sum_of_squares(call, x.data(), partial.data(), &result, count);
      EXPECT_NEAR(result, expected, 1e-14 * expected);
      const double finite = result;
      x.set(count - 1, INFINITY);
      cuda::sum_of_squares(call, x.data(), partial.data(), &result, count);
      EXPECT_EQ(result, HUGE_VAL);
      return std::vector<double>{finite};
    });
  }
}

TEST(Launching, AConfigurationOutOfLimitsIsAnError) {
  emulation::launch(
      "test", +[](int) {}, 1, 2048, 0, nullptr)(0);
  EXPECT_THROW(cuda::check_launch("none"), Error);
  EXPECT_NO_THROW(cuda::check_launch("none"));
  EXPECT_TRUE(cuda::serves_current_device());
}

// The emulator itself must notice what it is for.
using EmulatorDeathTest = ::testing::Test;

TEST(EmulatorDeathTest, ABarrierThatNotAllReachEndsTheTest) {
  const auto some_wait = +[](int) {
    if (threadIdx.x < 3) __syncthreads();
  };
  EXPECT_DEATH(emulation::launch("test", some_wait, 1, 64, 0, nullptr)(0), "others have returned");
  const auto some_shuffle = +[](int) {
    if (threadIdx.x % 2 == 0) {
      __shfl_xor_sync(0xFFFFFFFFU, 1.0F, 1);
    } else {
      __syncthreads();
    }
  };
  EXPECT_DEATH(emulation::launch("test", some_shuffle, 1, 64, 0, nullptr)(0), "what never comes");
}

TEST(Emulator, AMissingBarrierGivesOtherResultsInTheOtherOrder) {
  static int shared, seen;
  const auto race = +[](int) {
    if (threadIdx.x == 0) shared = 7;
    if (threadIdx.x == 1) seen = shared;
  };
  int results[2];
  for (const bool descending : {false, true}) {
    emulation::set_descending(descending);
    shared = 0;
    emulation::launch("test", race, 1, 32, 0, nullptr)(0);
    results[descending] = seen;
  }
  emulation::set_descending(false);
  EXPECT_NE(results[0], results[1]);
}

}  // namespace
}  // namespace lmtrain::emulated
