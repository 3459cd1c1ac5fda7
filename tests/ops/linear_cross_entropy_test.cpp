#include <ATen/ops/allclose.h>

#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
using testing::check_operator;
using testing::Operator;
using testing::random_integers;
using testing::random_tensor;

using Function = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
                                double);

at::Tensor number(double value) { return at::scalar_tensor(value, at::kDouble); }

at::Tensor in_one(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                  double scale, double z_loss) {
  return linear_cross_entropy(x, weight, targets, number(scale), z_loss);
}

at::Tensor in_chunks(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                     double scale, double z_loss) {
  return linear_cross_entropy(x, weight, targets, number(scale), z_loss, /*chunk=*/16);
}

at::Tensor by_reference(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                        double scale, double z_loss) {
  return linear_cross_entropy_reference(x, weight, targets, number(scale), z_loss);
}

// `weight` multiplies the result, so the gradient of the loss is not 1.
Operator of(Function function, const at::Tensor& targets, double scale, double weight = 1.0) {
  return [=](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{function(in[0], in[1], targets, scale, 0.0) * weight};
  };
}

// Random targets, about a sixth of them masked.
at::Tensor masked_targets(int64_t positions, int64_t vocab, uint64_t seed) {
  const at::Tensor targets = random_integers(0, vocab, {positions}, seed);
  return targets.masked_fill(random_integers(0, 6, {positions}, seed + 1000) == 0, -100);
}

std::vector<at::Tensor> inputs(int64_t positions, int64_t size, int64_t vocab, uint64_t seed) {
  return {random_tensor({positions, size}, seed),
          random_tensor({vocab, size}, seed + 1) / std::sqrt(static_cast<double>(size))};
}

// Of a scale for which gradients are about as large as one.
double scale_of(int64_t positions) { return 1 / std::sqrt(static_cast<double>(positions)); }

// In bf16 the composition, and the operator, round the logits' gradient before the products.
constexpr double kThroughBf16Logits = 5e-2;

void check(int64_t positions, int64_t size, int64_t vocab, uint64_t seed, double weight = 1.0) {
  const at::Tensor targets = masked_targets(positions, vocab, seed);
  const double scale = scale_of(positions);
  for (const Function function : {in_one, in_chunks}) {
    SCOPED_TRACE(at::str(positions, " x ", size, ", vocabulary ", vocab, ", weight ", weight,
                         function == in_one ? "" : ", in chunks"));
    check_operator(of(function, targets, scale, weight), of(by_reference, targets, scale, weight),
                   inputs(positions, size, vocab, seed), kThroughBf16Logits);
  }
}

TEST(LinearCrossEntropy, EqualsItsReferenceOverShapes) {
  check(1, 8, 2, 1);
  check(33, 24, 131, 2);
  // Logits that would lie a power of two apart, by a library's product and by ours.
  check(7, 16, 1024, 3);
  check(40, 32, 1024, 5);
  check(40, 33, 515, 4, -0.5);
  check(40, 33, 515, 4, 0.0);
}

TEST(LinearCrossEntropy, TheChunkIsAllPositionsUnlessTheLogitsAreLarge) {
  EXPECT_EQ(linear_cross_entropy_chunk(at::kCPU, at::kFloat, 8192), 8192);
  EXPECT_EQ(linear_cross_entropy_chunk(at::kCPU, at::kBFloat16, 8192), 16384);
  EXPECT_EQ(linear_cross_entropy_chunk(at::kCPU, at::kFloat, 1 << 20), 1024);
  EXPECT_EQ(linear_cross_entropy_chunk(at::kCUDA, at::kBFloat16, 32768), 65536);
}

TEST(LinearCrossEntropy, IsCrossEntropyOfTheProduct) {
  const at::Tensor targets = masked_targets(50, 300, 6);
  const std::vector<at::Tensor> in = inputs(50, 24, 300, 7);
  const Operator in_two = [&](const std::vector<at::Tensor>& x) {
    return std::vector<at::Tensor>{
        cross_entropy(lmtrain::linear(x[0], x[1]), targets, number(0.25), 1e-3)};
  };
  const Operator fused = [&](const std::vector<at::Tensor>& x) {
    return std::vector<at::Tensor>{linear_cross_entropy(x[0], x[1], targets, number(0.25), 1e-3)};
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const auto two = testing::run_operator(in_two, in, dtype);
    const auto one = testing::run_operator(fused, in, dtype);
    EXPECT_TRUE(testing::same_bits(two.outputs[0], one.outputs[0]));
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(testing::same_bits(two.gradients[i], one.gradients[i])) << i;
    }
  }
}

TEST(LinearCrossEntropy, TheValueIsTheSameInChunksAndWithoutAGradient) {
  const at::Tensor targets = masked_targets(130, 515, 8);
  const std::vector<at::Tensor> in = inputs(130, 24, 515, 9);
  const at::Tensor x = in[0].to(at::kFloat), weight = in[1].to(at::kFloat);
  const auto value = [&](Function f) {
    return testing::run_operator(of(f, targets, 0.5), in, at::kFloat).outputs[0];
  };
  EXPECT_TRUE(testing::same_bits(value(in_one), value(in_chunks)));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(testing::same_bits(in_one(x, weight, targets, 0.5, 0.0),
                                 in_chunks(x, weight, targets, 0.5, 0.0)));
}

TEST(LinearCrossEntropy, ScaleOfZeroHasNoGradient) {
  const at::Tensor targets = masked_targets(90, 67, 10);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto outcome =
        testing::run_operator(of(in_chunks, targets, 0.0), inputs(90, 8, 67, 11), dtype);
    for (const at::Tensor& gradient : outcome.gradients) {
      EXPECT_TRUE((gradient == 0).all().item<bool>());
    }
  }
}

TEST(LinearCrossEntropy, RefusesATargetBeyondTheVocabulary) {
  const std::vector<at::Tensor> in = inputs(2, 4, 11, 12);
  EXPECT_THROW(linear_cross_entropy(in[0].to(at::kFloat), in[1].to(at::kFloat),
                                    at::tensor({3, 11}, at::kLong), number(1.0), 0.0),
               c10::IndexError);
}

TEST(LinearCrossEntropy, TellsTheLossesThatItSumsUp) {
  const at::Tensor targets = masked_targets(90, 67, 15);
  constexpr double kScale = 0.25;
  const std::vector<at::Tensor> in = inputs(90, 8, 67, 16);
  // fp16 has no kernel on a CPU.
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor x = in[0].to(dtype), weight = in[1].to(dtype);
    const at::Tensor each = linear_cross_entropies(x, weight, targets);
    ASSERT_EQ(each.scalar_type(), at::kFloat);
    const float* first = each.data_ptr<float>();
    const auto sum = static_cast<float>(std::accumulate(first, first + each.numel(), 0.0) * kScale);
    const auto loss = linear_cross_entropy(x, weight, targets, number(kScale), 0.0).item<float>();
    if (dtype == at::kHalf) {  // libtorch sums in fp32
      EXPECT_NEAR(sum, loss, 1e-5 * loss);
    } else {
      EXPECT_EQ(sum, loss);
    }
    EXPECT_TRUE((each.masked_select(targets < 0) == 0).all().item<bool>());
    const at::Tensor logits = at::linear(x.to(at::kDouble), weight.to(at::kDouble));
    const at::Tensor expected = -at::log_softmax(logits, -1)
                                     .gather(1, targets.clamp_min(0).unsqueeze(1))
                                     .squeeze(1)
                                     .masked_fill(targets < 0, 0);
    const double tolerance = dtype == at::kFloat ? 1e-5 : 3e-2;  // of logits in low precision
    EXPECT_TRUE(at::allclose(each.to(at::kDouble), expected, tolerance, tolerance)) << dtype;
  }
}

TEST(LinearCrossEntropy, HasTheGradientOfItsValue) {
  const at::Tensor targets = masked_targets(5, 7, 13);
  check_gradient(of(by_reference, targets, 0.3), inputs(5, 4, 7, 14));
}

// In fp32: of bf16 the products may be the library's.
TEST(LinearCrossEntropy, LossesDoNotDependOnThreads) {
  const at::Tensor targets = masked_targets(1500, 600, 15);
  const std::vector<at::Tensor> in = inputs(1500, 16, 600, 16);
  std::vector<at::Tensor> losses;
  for (const int threads : {1, 2, 3}) {
    const testing::Threads scope(threads);
    losses.push_back(testing::run_operator(of(in_one, targets, 0.5), in, at::kFloat).outputs[0]);
  }
  EXPECT_TRUE(testing::same_bits(losses[0], losses[1]));
  EXPECT_TRUE(testing::same_bits(losses[0], losses[2]));
}

}  // namespace
}  // namespace lmtrain
