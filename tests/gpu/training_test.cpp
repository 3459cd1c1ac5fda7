// The same weights and the same batch on a GPU and on the CPU: loss, gradient and update agree.
// Every test skips itself on a machine without a GPU (ctest label gpu, scripts/gpu_check.sh).
#include "device/torch_headers.h"
#include "gpu.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "support/llama_case.h"

namespace lmtrain {
namespace {

using testing::gpu;

class OnGpu : public ::testing::TestWithParam<std::string> {};

// A model with the reference's weights on `device`, and what one batch gives there.
struct Outcome {
  Outcome(const testing::LlamaCase& reference, at::ScalarType dtype, at::Device device,
          double loss_scale = 1)
      : parameters(ParameterLayout(reference.config, *reference.config.vocab_size), dtype, device) {
    load_weights(TensorFiles(reference.folder), parameters);
    Llama model(reference.config, parameters, reference.max_length, CompileMode::kScript);
    gradient = at::zeros_like(parameters.master());
    loss = model
               .loss_and_gradient(
                   micro_batch(reference.tensor("input_ids"), reference.tensor("labels"),
                               reference.mean_scale() * loss_scale)
                       .to(device),
                   gradient, /*first=*/true)
               .item<double>() /
           loss_scale;
  }

  Parameters parameters;
  at::Tensor gradient;
  double loss = 0;
};

TEST_P(OnGpu, LossAndGradientInFp32AreTheCpus) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const testing::LlamaCase reference(GetParam());
  const Outcome cpu(reference, at::kFloat, at::kCPU);
  const Outcome cuda(reference, at::kFloat, *device);
  EXPECT_NEAR(cuda.loss, cpu.loss, 1e-5);
  EXPECT_LT((cuda.gradient.cpu() - cpu.gradient).abs().max().item<double>(), 1e-5);
}

TEST_P(OnGpu, Bf16IsNearFp32) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const testing::LlamaCase reference(GetParam());
  const Outcome cpu(reference, at::kFloat, at::kCPU);
  const Outcome cuda(reference, at::kBFloat16, *device);
  EXPECT_NEAR(cuda.loss, cpu.loss, 0.05);
  const double norm = l2_norm(cpu.gradient);
  EXPECT_LT((cuda.gradient.cpu() - cpu.gradient).norm().item<double>(), 0.05 * norm);
}

TEST_P(OnGpu, Fp16IsNearFp32) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const testing::LlamaCase reference(GetParam());
  const Outcome cpu(reference, at::kFloat, at::kCPU);
  const Outcome cuda(reference, at::kHalf, *device);
  EXPECT_NEAR(cuda.loss, cpu.loss, 0.01);
  const double norm = l2_norm(cpu.gradient);
  EXPECT_LT((cuda.gradient.cpu() - cpu.gradient).norm().item<double>(), 0.02 * norm);
}

// What the loss scale is for: gradients that a fp16 number cannot hold become ones that it can.
TEST_P(OnGpu, Fp16IsNearerToFp32WithALossScale) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  constexpr double kScale = 1024;
  const testing::LlamaCase reference(GetParam());
  const Outcome cpu(reference, at::kFloat, at::kCPU);
  const Outcome scaled(reference, at::kHalf, *device, kScale);
  EXPECT_NEAR(scaled.loss, cpu.loss, 0.01);
  const double norm = l2_norm(cpu.gradient);
  EXPECT_LT((scaled.gradient.cpu() / kScale - cpu.gradient).norm().item<double>(), 0.01 * norm);
}

// fp32 masters beside low-precision working weights: the update is that of the masters alone.
TEST_P(OnGpu, UpdatesWriteTheWorkingWeights) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const testing::LlamaCase reference(GetParam());
  for (const std::string type : {"adamw", "lion", "ademamix"}) {
    for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(at::str(type, " ", at::toString(dtype)));
      OptimizerConfig config;
      config.type = value_named<OptimizerType>(type).value();
      config.betas.resize(type == "ademamix" ? 3 : 2, 0.999);
      const Outcome cpu(reference, at::kFloat, at::kCPU);
      Outcome cuda(reference, dtype, *device);
      const at::Tensor before = cuda.parameters.master().clone();
      make_optimizer(config, cuda.parameters)
          ->update({1, 1e-2, 1, {.total = 10, .steps = 1}}, cpu.gradient.to(*device));
      EXPECT_FALSE(testing::same_bits(before.cpu(), cuda.parameters.master().cpu()));
      EXPECT_TRUE(testing::same_bits(cuda.parameters.working().cpu(),
                                     cuda.parameters.master().to(dtype).cpu()));
    }
  }
}

TEST_P(OnGpu, OptimizersUpdateAsOnTheCpu) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const testing::LlamaCase reference(GetParam());
  for (const std::string type : {"adamw", "lion", "ademamix", "muon"}) {
    SCOPED_TRACE(type);
    OptimizerConfig config;
    config.type = value_named<OptimizerType>(type).value();
    config.betas.resize(type == "ademamix" ? 3 : 2, 0.999);
    Outcome cpu(reference, at::kFloat, at::kCPU);
    Outcome cuda(reference, at::kFloat, *device);
    const double norm = gradient_norm(cpu.gradient, cpu.parameters.layout());
    EXPECT_NEAR(gradient_norm(cuda.gradient, cpu.parameters.layout()), norm, 1e-5 * norm);
    const at::Tensor start = cpu.parameters.master().clone();
    const auto cpu_optimizer = make_optimizer(config, cpu.parameters);
    const auto cuda_optimizer = make_optimizer(config, cuda.parameters);
    for (int64_t step = 1; step <= 3; ++step) {
      const RunClock position{.total = 10, .steps = static_cast<double>(step)};
      const at::Tensor gradient = cpu.gradient.clone();  // an update may overwrite it
      cuda_optimizer->update({step, 1e-2, 0.5, position}, gradient.to(*device));
      cpu_optimizer->update({step, 1e-2, 0.5, position}, gradient);
    }
    const at::Tensor difference = cuda.parameters.master().cpu() - cpu.parameters.master();
    if (type == "muon") {  // iterates in bf16
      const double moved = (cpu.parameters.master() - start).norm().item<double>();
      EXPECT_LT(difference.norm().item<double>(), 0.05 * moved);
    } else {
      EXPECT_LT(difference.abs().max().item<double>(), 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OnGpu, ::testing::ValuesIn(testing::llama_cases()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace lmtrain
