#include <ATen/ops/full_like.h>
#include <ATen/ops/linspace.h>

#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
using testing::check_operator;
using testing::check_thread_independence;
using testing::Operator;
using testing::random_integers;
using testing::random_tensor;

using Function = at::Tensor (*)(const at::Tensor&, const at::Tensor&, double);

at::Tensor number(double value) { return at::scalar_tensor(value, at::kDouble); }

at::Tensor fused(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  return cross_entropy(logits.clone(), targets, number(scale),
                       0.0);  // it overwrites what it is given
}

at::Tensor reference(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  return cross_entropy_reference(logits, targets, number(scale), 0.0);
}

// `scale` is that of the operator; `weight` multiplies its result, so the gradient of the loss is
// not 1.
Operator of(Function function, const at::Tensor& targets, double scale, double weight = 1.0) {
  return [=](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{function(in[0], targets, scale) * weight};
  };
}

// Random targets, about a third of them masked by -100 or another negative number.
at::Tensor masked_targets(int64_t rows, int64_t vocab, uint64_t seed) {
  const at::Tensor targets = random_integers(0, vocab, {rows}, seed);
  const at::Tensor dice = random_integers(0, 6, {rows}, seed + 1000);
  return at::where(dice == 0, at::full_like(targets, -100),
                   at::where(dice == 1, at::full_like(targets, -1), targets));
}

void check(int64_t rows, int64_t vocab, uint64_t seed, double scale, double weight = 1.0) {
  SCOPED_TRACE(at::str(rows, " x ", vocab, " scale ", scale, " weight ", weight));
  const at::Tensor targets = masked_targets(rows, vocab, seed);
  check_operator(of(fused, targets, scale, weight), of(reference, targets, scale, weight),
                 {3 * random_tensor({rows, vocab}, seed)});
}

TEST(CrossEntropy, EqualsItsReferenceOverShapes) {
  check(1, 1, 1, 1.0);
  check(1, 2, 2, 1.0);
  check(3, 5, 3, 1.0 / 3);
  check(33, 131, 4, 1.0);
  check(7, 1024, 5, 1.0 / 7);
  check(5, 32003, 6, 0.5);
}

TEST(CrossEntropy, GoesBackFromAnyGradientOfTheLoss) {
  check(9, 67, 7, 1.0 / 9, 2.5);
  check(9, 67, 8, 1.0, -0.125);
  check(9, 67, 9, 3.0, 0.0);
}

TEST(CrossEntropy, ScaleOfZeroHasNoGradient) { check(9, 67, 10, 0.0); }

TEST(CrossEntropy, MaskedRowsCountNothing) {
  const at::Tensor logits = random_tensor({4, 11}, 11);
  const at::Tensor targets = at::full({4}, -100, at::kLong);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto outcome = testing::run_operator(of(fused, targets, 1.0), {logits}, dtype);
    EXPECT_EQ(outcome.outputs[0].item<float>(), 0.0F);
    EXPECT_TRUE((outcome.gradients[0] == 0).all().item<bool>());
  }
  // What stands in a masked row, even NaN, reaches neither loss nor gradient.
  at::Tensor poisoned = logits.clone();
  poisoned[2] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor some = at::tensor({3, 4, -100, 5}, at::kLong);
  const auto clean = testing::run_operator(of(fused, some, 1.0), {logits}, at::kFloat);
  const auto dirty = testing::run_operator(of(fused, some, 1.0), {poisoned}, at::kFloat);
  EXPECT_TRUE(testing::same_bits(clean.outputs[0], dirty.outputs[0]));
  EXPECT_TRUE(testing::same_bits(clean.gradients[0], dirty.gradients[0]));
}

// It would be written past the row's end.
TEST(CrossEntropy, RefusesATargetBeyondTheVocabulary) {
  const at::Tensor logits = random_tensor({2, 11}, 25).requires_grad_(true);
  EXPECT_THROW(fused(logits, at::tensor({3, 11}, at::kLong), 1.0), c10::IndexError);
  const at::NoGradGuard no_grad;
  EXPECT_THROW(fused(logits, at::tensor({11, 3}, at::kLong), 1.0), c10::IndexError);
}

TEST(CrossEntropy, ExtremeLogitsStayFinite) {
  at::Tensor logits = random_tensor({6, 37}, 12);
  logits[0][3] = 1e4;  // the target: loss 0
  logits[1][3] = 1e4;  // another: loss 1e4
  logits[2].fill_(-1e4);
  logits[3].fill_(1e4);
  logits[4][5] = -1e4;  // the target
  logits[5].copy_(at::linspace(-1e4, 1e4, 37));
  const at::Tensor targets = at::tensor({3, 7, 0, 36, 5, 0}, at::kLong);
  check_operator(of(fused, targets, 1.0), of(reference, targets, 1.0), {logits});
  const auto outcome = testing::run_operator(of(fused, targets, 1.0), {logits}, at::kFloat);
  EXPECT_TRUE(outcome.gradients[0].isfinite().all().item<bool>());
  EXPECT_GT(outcome.outputs[0].item<float>(), 3e4F);
}

TEST(CrossEntropy, ReadsLogitsAndTargetsThatAreNotContiguous) {
  const at::Tensor targets = masked_targets(18, 23, 13).slice(0, 0, std::nullopt, 2);
  const auto transposed = [&](Function function) {
    return [=](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{function(in[0].transpose(0, 1), targets, 0.5)};
    };
  };
  // Without fused()'s clone, which keeps strides but would not show an overwritten view.
  const auto overwriting = [](const at::Tensor& logits, const at::Tensor& t, double scale) {
    return cross_entropy(logits, t, number(scale), 0.0);
  };
  check_operator(transposed(fused), transposed(reference), {random_tensor({23, 9}, 14)});
  check_operator(transposed(overwriting), transposed(reference), {random_tensor({23, 9}, 14)});
}

TEST(CrossEntropy, OverwritesTheLogitsByTheirGradientWhereOneIsWanted) {
  const at::Tensor leaf = random_tensor({5, 13}, 15).requires_grad_(true);
  const at::Tensor targets = masked_targets(5, 13, 16);
  const at::Tensor logits = leaf * 1;
  const at::Tensor loss = cross_entropy(logits, targets, number(0.25), 0.0);
  const at::Tensor gradient = torch::autograd::grad({loss}, {leaf})[0];
  EXPECT_TRUE(testing::same_bits(logits, gradient));
  EXPECT_FALSE(testing::same_bits(logits, leaf));
}

TEST(CrossEntropy, LeavesTheLogitsAloneWhereNoGradientIsWanted) {
  const at::Tensor leaf = random_tensor({5, 13}, 17).requires_grad_(true);
  const at::Tensor targets = masked_targets(5, 13, 18);
  const double with_gradient = fused(leaf, targets, 0.25).item<double>();
  const at::NoGradGuard no_grad;
  const at::Tensor logits = leaf.clone();
  EXPECT_EQ(cross_entropy(logits, targets, number(0.25), 0.0).item<double>(), with_gradient);
  EXPECT_TRUE(testing::same_bits(logits, leaf));
}

TEST(CrossEntropy, ReferenceHasTheGradientOfItsValue) {
  check_gradient(of(reference, masked_targets(5, 7, 19), 0.5, 3.0), {random_tensor({5, 7}, 20)});
}

// ---- z-loss ----

constexpr double kZLoss = 0.02;

at::Tensor fused_with_z(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  return cross_entropy(logits.clone(), targets, number(scale), kZLoss);
}
at::Tensor sum_with_z(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  return cross_entropy_reference(logits, targets, number(scale), kZLoss);
}
// The value of the cross-entropy, the gradient of the sum.
at::Tensor reference_with_z(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  const at::Tensor both = sum_with_z(logits, targets, scale);
  return both - both.detach() + reference(logits, targets, scale).detach();
}

TEST(CrossEntropy, ZLossIsInTheGradientAndNotInTheValue) {
  for (const int64_t vocab : {2, 67, 1024}) {
    const at::Tensor targets = masked_targets(9, vocab, 26);
    const at::Tensor logits = 3 * random_tensor({9, vocab}, 27) + 1;
    check_operator(of(fused_with_z, targets, 0.5, 2.0), of(reference_with_z, targets, 0.5, 2.0),
                   {logits});
    const auto with = testing::run_operator(of(fused_with_z, targets, 0.5), {logits}, at::kFloat);
    const auto without = testing::run_operator(of(fused, targets, 0.5), {logits}, at::kFloat);
    EXPECT_TRUE(testing::same_bits(with.outputs[0], without.outputs[0]));
    EXPECT_FALSE(testing::same_bits(with.gradients[0], without.gradients[0]));
  }
}

TEST(CrossEntropy, ZLossIsTheSquareOfTheLogOfTheSum) {
  const at::Tensor logits = at::tensor({1.0, 2.0, 3.0, 0.5, -1.0, 4.0}, at::kDouble).view({2, 3});
  const at::Tensor targets = at::tensor({2, -1}, at::kLong);  // the second row counts nothing
  const double log_sum = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  EXPECT_NEAR(sum_with_z(logits, targets, 0.25).item<double>(),
              0.25 * (log_sum - 3 + kZLoss * log_sum * log_sum), 1e-12);
  check_gradient(of(sum_with_z, masked_targets(5, 7, 28), 0.5, 3.0), {random_tensor({5, 7}, 29)});
}

// The path of every device and dtype without a kernel.
TEST(CrossEntropy, ZLossInFp16) {
  const at::Tensor targets = masked_targets(9, 67, 30);
  const at::Tensor logits = random_tensor({9, 67}, 31).to(at::kHalf);
  const auto half = testing::run_operator(of(fused_with_z, targets, 1.0), {logits}, at::kHalf);
  const auto exact =
      testing::run_operator(of(reference_with_z, targets, 1.0), {logits}, at::kDouble);
  EXPECT_EQ(half.outputs[0].scalar_type(), at::kFloat);
  EXPECT_NEAR(half.outputs[0].item<double>(), exact.outputs[0].item<double>(), 1e-4);
  EXPECT_LT((half.gradients[0].to(at::kDouble) - exact.gradients[0]).abs().max().item<double>(),
            1e-3);
}

TEST(CrossEntropy, NaNReachesLossAndGradient) {
  const at::Tensor targets = at::tensor({1, 2}, at::kLong);
  for (const int64_t column : {0, 2, 36}) {  // the first, the target's, another
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      at::Tensor logits = random_tensor({2, 37}, 21);
      logits[1][column] = std::numeric_limits<float>::quiet_NaN();
      const auto outcome = testing::run_operator(of(fused, targets, 1.0), {logits}, dtype);
      EXPECT_TRUE(outcome.outputs[0].isnan().item<bool>());
      EXPECT_TRUE(outcome.gradients[0][1].isnan().all().item<bool>());
      EXPECT_FALSE(outcome.gradients[0][0].isnan().any().item<bool>());
    }
  }
}

// A NaN may carry any bits below the quiet bit; arithmetic passes them on.
TEST(CrossEntropy, NaNWithPayloadIsNaN) {
  for (const uint32_t bits : {0x7FC00001U, 0xFFC00001U, 0x7FC001FFU, 0x7FFFFFFFU, 0x7FC00100U}) {
    const at::Tensor logits = random_tensor({1, 37}, 24);
    std::memcpy(logits.data_ptr<float>() + 5, &bits, sizeof bits);
    const auto outcome =
        testing::run_operator(of(fused, at::zeros({1}, at::kLong), 1.0), {logits}, at::kFloat);
    EXPECT_TRUE(outcome.outputs[0].isnan().item<bool>()) << std::hex << bits;
    EXPECT_TRUE(outcome.gradients[0].isnan().all().item<bool>()) << std::hex << bits;
  }
}

TEST(CrossEntropy, BitsDoNotDependOnThreads) {
  const at::Tensor targets = masked_targets(123, 1031, 22);
  check_thread_independence(of(fused, targets, 1.0), {random_tensor({123, 1031}, 23)});
}

}  // namespace
}  // namespace lmtrain
