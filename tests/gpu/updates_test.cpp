// The kernels that read gradients and update weights, without a model: on a GPU as on the CPU.
// Every test skips itself on a machine without a GPU.
#include "device/torch_headers.h"
#include "gpu.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::gpu;

class GpuUpdates : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuUpdates, AreTheCpus) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  ModelConfig model;
  model.hidden_size = 48;
  model.intermediate_size = 80;
  model.num_hidden_layers = 2;
  model.num_attention_heads = model.num_key_value_heads = 4;
  OptimizerConfig config;
  config.type = value_named<OptimizerType>(GetParam()).value();
  config.betas.resize(GetParam() == "ademamix" ? 3 : 2, 0.999);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(at::toString(dtype));
    const ParameterLayout layout(model, /*vocab_size=*/131);
    Parameters here(layout, at::kFloat, at::kCPU), there(layout, dtype, *device);
    here.initialize(1, 0.02);
    there.initialize(1, 0.02);
    const auto on_cpu = make_optimizer(config, here), on_gpu = make_optimizer(config, there);
    for (int64_t step = 1; step <= 3; ++step) {
      const at::Tensor gradient = testing::random_tensor({layout.flat_size()}, step, at::kFloat);
      EXPECT_NEAR(gradient_norm(gradient.to(*device), layout), l2_norm(gradient), 1e-4);
      const RunClock clock{.total = 10, .steps = static_cast<double>(step)};
      on_gpu->update({step, 1e-2, 0.5, clock}, gradient.to(*device, gradient.scalar_type(),
                                                           /*non_blocking=*/false, /*copy=*/true));
      on_cpu->update({step, 1e-2, 0.5, clock}, gradient.clone());
    }
    EXPECT_LT((there.master().cpu() - here.master()).abs().max().item<double>(), 1e-5);
    EXPECT_TRUE(testing::same_bits(there.working().cpu(), there.master().to(dtype).cpu()));
  }
}

// The GPU has a logarithm and a cosine of its own.
TEST(GpuNewWeights, AreTheCpusOrTheNumbersBesideThem) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  ModelConfig model;
  model.hidden_size = 256;
  model.intermediate_size = 704;
  model.num_hidden_layers = 2;
  model.num_attention_heads = model.num_key_value_heads = 4;
  const ParameterLayout layout(model, /*vocab_size=*/4001);
  Parameters here(layout, at::kFloat, at::kCPU), there(layout, at::kBFloat16, *device);
  for (const Initializer initializer : {Initializer::kNormal, Initializer::kZeroOutputs}) {
    here.initialize(7, 0.02, initializer);
    there.initialize(7, 0.02, initializer);
    const at::Tensor made = there.master().cpu();
    const at::Tensor differs = made != here.master();
    EXPECT_LT(differs.sum().item<int64_t>(), made.numel() / 100'000);
    EXPECT_LE(((made - here.master()).abs() / (here.master().abs() + 1e-30)).max().item<double>(),
              1.2e-7);
    EXPECT_TRUE(testing::same_bits(there.working().cpu(), made.to(at::kBFloat16)));
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, GpuUpdates, ::testing::Values("adamw", "lion", "ademamix"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace lmtrain
