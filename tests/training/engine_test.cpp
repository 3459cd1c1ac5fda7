#include "training/engine.h"

#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "support/tensors.h"
#include "training/graph_training.h"
#include "training/step.h"

namespace lmtrain {
namespace {

using testing::graph_batch;
using testing::graph_model_config;
using testing::kTinyLength;
using testing::kTinyVocabulary;
using testing::same_bits;

Config engine_config() {
  Config config;
  config.threads = 1;
  config.device = "cpu";
  config.precision = PrecisionSetting::kFp32;
  config.compile = CompileMode::kScript;
  config.model = graph_model_config();
  config.sequence.max_length = kTinyLength;
  config.optimizer.betas = {0.9, 0.95};
  config.clip.max = 0.5;
  return config;
}

// The engine does what its parts do when they are put together by hand.
TEST(Engine, AStepIsThatOfItsParts) {
  const testing::Threads one_thread{1};
  const Config config = engine_config();
  Engine engine(config);
  engine.initialize(/*seed=*/7);

  Parameters parameters(ParameterLayout(config.model, kTinyVocabulary), at::kFloat, at::kCPU);
  parameters.initialize(/*seed=*/7, config.model.initializer_range);
  Llama model(config.model, parameters, kTinyLength, config.compile);
  const auto optimizer = make_optimizer(config.optimizer, parameters);
  for (const OptimizerBuffer& buffer : optimizer->buffers()) buffer.values.zero_();
  const at::Tensor grad = at::zeros_like(parameters.master());

  for (int64_t step = 0; step < 4; ++step) {
    const Batch batch = graph_batch(step, /*packed=*/false);
    const double loss = engine.forward_backward(batch, 2);
    EXPECT_EQ(loss, accumulate_batch(model, batch, 2 * batch.length, grad));
    EXPECT_TRUE(same_bits(engine.gradient(), grad));
    const double norm = engine.grad_norm();
    EXPECT_EQ(norm, gradient_norm(grad, engine.layout()));
    const double factor = engine.clip(norm);
    EXPECT_EQ(factor, clip_gradient(config.clip, grad, norm));
    const UpdateStep update{
        step + 1, 1e-2, factor, {.total = 4, .steps = static_cast<double>(step + 1)}};
    engine.update(update);
    optimizer->update(update, grad);
    EXPECT_TRUE(same_bits(engine.parameters().master(), parameters.master())) << step;
  }
}

// The setting decides how weights begin.
TEST(Engine, InitializesAsTheModelSays) {
  Config config = engine_config();
  config.model.initializer = Initializer::kZeroOutputs;
  Engine engine(config);
  engine.initialize(/*seed=*/7);
  Parameters expected(ParameterLayout(config.model, kTinyVocabulary), at::kFloat, at::kCPU);
  expected.initialize(7, config.model.initializer_range, Initializer::kZeroOutputs);
  EXPECT_TRUE(same_bits(engine.parameters().master(), expected.master()));
}

// A second beginning forgets all of the first: weights and moments.
TEST(Engine, InitializeBeginsAnew) {
  const testing::Threads one_thread{1};
  Engine engine(engine_config());
  std::vector<at::Tensor> weights;
  for (int time = 0; time < 2; ++time) {
    engine.initialize(/*seed=*/7);
    for (int64_t step = 0; step < 3; ++step) {
      engine.forward_backward(graph_batch(step, /*packed=*/false), 4);
      engine.update({step + 1,
                     1e-2,
                     engine.clip(engine.grad_norm()),
                     {.total = 3, .steps = static_cast<double>(step + 1)}});
    }
    weights.push_back(engine.parameters().master().clone());
  }
  EXPECT_TRUE(same_bits(weights[0], weights[1]));
}

TEST(Engine, OnACpuEvaluationsComputeInFp32) {
  const Config config = engine_config();
  Engine fp32(config);
  EXPECT_EQ(&fp32.evaluation_model(), &fp32.model());
  Engine bf16(config, {at::kBFloat16}, at::kCPU, {});
  EXPECT_NE(&bf16.evaluation_model(), &bf16.model());
  EXPECT_EQ(&bf16.evaluation_model(), &bf16.evaluation_model());
  EXPECT_EQ(bf16.evaluation_model().parameters().working().scalar_type(), at::kFloat);
}

// As on a GPU: the working weights, and for fp8 products in their dtype.
TEST(Engine, EvaluationsComputeWithTheWorkingWeightsWhereTheyAreToldTo) {
  const Config config = engine_config();
  for (const bool fp8 : {false, true}) {
    Engine engine(config, {at::kBFloat16, fp8}, at::kCPU, {.evaluation = Precision{at::kBFloat16}});
    engine.initialize(/*seed=*/7);
    Llama& model = engine.evaluation_model();
    EXPECT_EQ(&model == &engine.model(), !fp8);
    EXPECT_EQ(&model.parameters(), &engine.parameters());
    EXPECT_EQ(model.logits(at::zeros({2, kTinyLength}, at::kLong)).scalar_type(), at::kBFloat16);
  }
}

// What an evaluation on a GPU differs by from `lmtrain eval`, which computes in fp32.
TEST(Engine, ALossInTheWorkingPrecisionIsNearThatInFp32) {
  const Config config = engine_config();
  const at::Tensor ids = testing::random_integers(0, kTinyVocabulary, {8, kTinyLength}, 5);
  const auto loss_in = [&](at::ScalarType evaluation) {
    Engine engine(config, {at::kBFloat16}, at::kCPU, {.evaluation = Precision{evaluation}});
    engine.initialize(/*seed=*/7);
    const TargetLosses losses = engine.evaluation_model().target_losses(micro_batch(ids, ids, 1.0));
    return losses.sum.item<double>() / static_cast<double>(ids.numel());
  };
  const double fp32 = loss_in(at::kFloat), bf16 = loss_in(at::kBFloat16);
  EXPECT_NE(bf16, fp32);
  EXPECT_NEAR(bf16, fp32, 1e-3 * fp32);
}

}  // namespace
}  // namespace lmtrain
