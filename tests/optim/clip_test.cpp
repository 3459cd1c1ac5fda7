#include "optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "optim/support.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::random_tensor;
using testing::same_bits;
using testing::Threads;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(L2Norm, IsTheRootOfTheSumOfSquares) {
  for (const int64_t size : {1, 2, 17, 65535, 65536, 65537, 200001}) {
    const at::Tensor grad = random_tensor({size}, static_cast<uint64_t>(size));
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) {
      const double x = grad.data_ptr<float>()[i];
      squares += x * x;
    }
    EXPECT_NEAR(l2_norm(grad), std::sqrt(squares), 1e-12 * std::sqrt(squares)) << size;
  }
  EXPECT_EQ(l2_norm(at::zeros({100})), 0.0);
}

TEST(L2Norm, DoesNotOverflowWhereSquaresLeaveFp32) {
  EXPECT_NEAR(l2_norm(at::full({100}, 1e30F)), 1e31, 1e25);
}

// In double two orders of summing often round to the same norm, so several gradients are summed.
TEST(L2Norm, BitsDoNotDependOnThreads) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const at::Tensor grad = random_tensor({300001}, seed);
    const Threads one(1);
    const double expected = l2_norm(grad);
    for (const int threads : {2, 3}) {
      const Threads more(threads);
      EXPECT_EQ(l2_norm(grad), expected);
    }
  }
}

TEST(L2Norm, IsNotFiniteWhereTheGradientIsNot) {
  for (const int64_t index : {0, 65536, 99999}) {
    at::Tensor grad = random_tensor({100000}, 2);
    grad[index] = kNaN;
    EXPECT_TRUE(std::isnan(l2_norm(grad)));
    for (const double infinity : {kInfinity, -kInfinity}) {
      grad[index] = infinity;
      EXPECT_EQ(l2_norm(grad), kInfinity);
    }
  }
}

// The blocks of a tensor do not depend on what lies beside it, and cover no gap.
TEST(GradientNorm, IsThatOfAllTensors) {
  ModelConfig model = testing::small_model();
  model.intermediate_size = 3000;
  const ParameterLayout layout(model, 5000);
  const at::Tensor grad = at::zeros({layout.flat_size()});
  double squares = 0;
  size_t blocks = 0;
  for (const ParameterSpec& spec : layout.parameters()) {
    const at::Tensor tensor = grad.narrow(0, spec.offset, spec.numel());
    tensor.copy_(random_tensor({spec.numel()}, static_cast<uint64_t>(spec.offset)));
    const double norm = l2_norm(tensor);
    squares += norm * norm;
    blocks += static_cast<size_t>((spec.numel() + kNormBlock - 1) / kNormBlock);
  }
  EXPECT_NEAR(gradient_norm(grad, layout), std::sqrt(squares), 1e-12 * std::sqrt(squares));
  const std::vector<ElementRange> all = norm_blocks(layout);
  ASSERT_EQ(all.size(), blocks);
  EXPECT_GT(blocks, layout.parameters().size());
  const std::vector<double> sums = sums_of_squares(grad, all);
  EXPECT_EQ(gradient_norm(grad, layout), std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0)));
  const std::vector<double> last = sums_of_squares(grad, {all.back()});
  EXPECT_EQ(last, std::vector{sums.back()});
}

TEST(ClipGradient, ByNormGivesPyTorchsFactorAndLeavesTheGradient) {
  const ClipConfig config{ClipType::kNorm, 0.5};
  const at::Tensor grad = random_tensor({9}, 3), before = grad.clone();
  EXPECT_DOUBLE_EQ(clip_gradient(config, grad, 2.0), 0.5 / (2.0 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_gradient(config, grad, 0.5), 0.5 / (0.5 + 1e-6));
  EXPECT_EQ(clip_gradient(config, grad, 0.4), 1.0);
  EXPECT_EQ(clip_gradient(config, grad, 0.0), 1.0);
  EXPECT_EQ(clip_gradient(config, grad, kInfinity), 0.0);
  EXPECT_TRUE(same_bits(grad, before));
}

TEST(ClipGradient, ByValueClampsInPlace) {
  at::Tensor grad = at::tensor({-3.0F, -0.5F, 0.0F, 0.25F, 0.5F, 7.0F});
  EXPECT_EQ(clip_gradient({ClipType::kValue, 0.5}, grad, 8.0), 1.0);
  EXPECT_TRUE(same_bits(grad, at::tensor({-0.5F, -0.5F, 0.0F, 0.25F, 0.5F, 0.5F})));
  grad[1] = kNaN;
  clip_gradient({ClipType::kValue, 0.5}, grad, kNaN);
  EXPECT_TRUE(grad[1].isnan().item<bool>());
}

TEST(ClipGradient, NoneChangesNothing) {
  const at::Tensor grad = 100 * random_tensor({9}, 4), before = grad.clone();
  EXPECT_EQ(clip_gradient({ClipType::kNone, 0.5}, grad, 300.0), 1.0);
  EXPECT_TRUE(same_bits(grad, before));
}

}  // namespace
}  // namespace lmtrain
