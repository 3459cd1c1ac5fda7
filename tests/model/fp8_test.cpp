// The Llama with its layers' products in fp8, on a CPU by the operator's oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "model/llama.h"
#include "support/models.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::random_integers;
using testing::same_bits;
using testing::Threads;
using testing::two_layer_model;

constexpr int64_t kVocabulary = 503, kLength = 24;  // 3 rows: 72 positions, no multiple of 16
constexpr double kScale = 1.0 / 72;

struct Outcome {
  at::Tensor loss, gradient, losses;  // `losses`: of each target, without a gradient
};

// With `moved` each weight is multiplied by 1 plus a random number of up to half a unit in bf16's
// last place, before it is rounded to bf16.
Outcome run(bool fp8, const ModelConfig& config = two_layer_model(),
            CompileMode compile = CompileMode::kScript, uint64_t seed = 1, bool moved = false) {
  const Threads one_thread(1);
  Parameters parameters(ParameterLayout(config, kVocabulary), at::kBFloat16, at::kCPU);
  parameters.initialize(seed, 0.08);
  if (moved) {
    const at::Tensor noise = testing::random_tensor(parameters.master().sizes(), seed + 2);
    parameters.master().mul_(noise.clamp(-1, 1).mul_(0x1p-9).add_(1));
    parameters.refresh_working();
  }
  Llama llama(config, parameters, kLength, compile, /*z_loss=*/0, fp8);
  const MicroBatch micro =
      micro_batch(random_integers(0, kVocabulary, {3, kLength}, seed),
                  random_integers(-1, kVocabulary, {3, kLength}, seed + 1), kScale);
  Outcome outcome;
  outcome.gradient = at::zeros_like(parameters.master());
  outcome.loss = llama.loss_and_gradient(micro, outcome.gradient, /*first=*/true);
  outcome.losses = llama.target_losses(micro);
  return outcome;
}

TEST(LlamaInFp8, IsNearBf16AndNotIt) {
  // Of one start the difference of the losses is a draw around 0, another on every processor; its
  // size is that of several.
  constexpr uint64_t kStarts = 8;
  double squares = 0;
  Outcome bf16, fp8;
  for (uint64_t seed = kStarts; seed >= 1; --seed) {
    bf16 = run(false, two_layer_model(), CompileMode::kScript, seed);
    fp8 = run(true, two_layer_model(), CompileMode::kScript, seed);
    const double difference = (fp8.loss - bf16.loss).item<double>();
    EXPECT_NE(difference, 0);
    squares += difference * difference;
  }
  const double difference = std::sqrt(squares / static_cast<double>(kStarts));
  EXPECT_LE(difference, 2e-2);
  testing::record_difference("loss", difference);
  const float* first = fp8.losses.data_ptr<float>();
  const double sum = std::accumulate(first, first + fp8.losses.numel(), 0.0);
  EXPECT_EQ(fp8.loss.item<float>(), static_cast<float>(sum * kScale));
  const ParameterLayout layout(two_layer_model(), kVocabulary);
  for (const ParameterSpec& spec : layout.parameters()) {
    const auto part = [&](const Outcome& outcome) {
      return outcome.gradient.narrow(0, spec.offset, spec.numel()).to(at::kDouble);
    };
    const at::Tensor a = part(bf16), b = part(fp8);
    const double cosine = (a.dot(b) / (a.norm() * b.norm())).item<double>();
    EXPECT_GT(cosine, 0.95) << spec.name;
    EXPECT_LT(cosine, 0.99999) << spec.name << ": is it fp8?";
  }
}

// How far apart may two right implementations be? They give a cast numbers that differ by bf16's
// rounding. A number near the middle of two numbers of 8 bits then moves by a whole step of 8 bits.
// So most roundings are drawn anew: the two gradients are nearly as far from each other as each is
// from bf16's, 18 % of the norm, where bf16's own gradient moves by 2 %. The errors are alike in
// size. tests/gpu/fp8_test.cpp judges a GPU by this.
TEST(LlamaInFp8, ARoundingOfTheWeightsDrawsTheErrorAnew) {
  for (const uint64_t seed : {1, 2, 3}) {
    const auto gradient = [&](bool fp8, bool moved) {
      return run(fp8, two_layer_model(), CompileMode::kScript, seed, moved)
          .gradient.to(at::kDouble);
    };
    const auto distance = [](const at::Tensor& a, const at::Tensor& b) {
      return (a - b).norm().item<double>();
    };
    const at::Tensor bf16 = gradient(false, false), fp8 = gradient(true, false),
                     moved = gradient(true, true);
    const double error = distance(fp8, bf16), apart = distance(fp8, moved);
    EXPECT_NEAR(distance(moved, bf16), error, 0.1 * error);
    EXPECT_GT(apart, 0.7 * error);
    EXPECT_LT(apart, std::numbers::sqrt2 * error) << "two draws that share nothing";
    EXPECT_LT(distance(gradient(false, true), bf16), 0.2 * error);
  }
}

TEST(LlamaInFp8, EagerScriptAndRecomputedLayersGiveTheSameBits) {
  const Outcome script = run(true);
  ModelConfig recomputing = two_layer_model();
  recomputing.activation_checkpointing = true;
  for (const Outcome& other :
       {run(true, two_layer_model(), CompileMode::kEager), run(true, recomputing)}) {
    EXPECT_TRUE(same_bits(other.loss, script.loss));
    EXPECT_TRUE(same_bits(other.gradient, script.gradient));
  }
}

}  // namespace
}  // namespace lmtrain
