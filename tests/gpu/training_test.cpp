// The same weights and the same batch on a GPU and on the CPU: loss, gradient and update agree.
// Every test skips itself on a machine without a GPU (ctest label gpu, scripts/gpu_check.sh).
#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "ops/device.h"
#include "ops/torch_headers.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "support/llama_case.h"

namespace lmtrain {
namespace {

std::optional<at::Device> gpu() {
  try {
    return resolve_device("cuda");
  } catch (const Error&) {
    return std::nullopt;
  }
}

#define SKIP_WITHOUT_GPU(device) \
  if (!(device)) GTEST_SKIP() << "no GPU on this machine"

class OnGpu : public ::testing::TestWithParam<std::string> {};

// A model with the reference's weights on `device`, and what one batch gives there.
struct Outcome {
  Outcome(const testing::LlamaCase& reference, at::ScalarType dtype, at::Device device)
      : parameters(ParameterLayout(reference.config, *reference.config.vocab_size), dtype, device) {
    load_weights(TensorFiles(reference.folder), parameters);
    Llama model(reference.config, parameters, reference.max_length, "script");
    gradient = at::zeros_like(parameters.master());
    loss = model
               .loss_and_gradient(reference.tensor("input_ids").to(device),
                                  reference.tensor("labels").to(device), reference.mean_scale(),
                                  gradient, /*first=*/true)
               .item<double>();
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
  const double norm = gradient_norm(cpu.gradient);
  EXPECT_LT((cuda.gradient.cpu() - cpu.gradient).norm().item<double>(), 0.05 * norm);
}

TEST_P(OnGpu, AdamwUpdatesAsOnTheCpu) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const testing::LlamaCase reference(GetParam());
  Outcome cpu(reference, at::kFloat, at::kCPU);
  Outcome cuda(reference, at::kFloat, *device);
  const auto cpu_optimizer = make_optimizer(OptimizerConfig(), cpu.parameters);
  const auto cuda_optimizer = make_optimizer(OptimizerConfig(), cuda.parameters);
  for (int64_t step = 1; step <= 3; ++step) {
    cpu_optimizer->update({step, 1e-2, 0.5}, cpu.gradient);
    cuda_optimizer->update({step, 1e-2, 0.5}, cpu.gradient.to(*device));
  }
  EXPECT_LT((cuda.parameters.master().cpu() - cpu.parameters.master()).abs().max().item<double>(),
            1e-5);
  EXPECT_NEAR(gradient_norm(cuda.gradient), gradient_norm(cpu.gradient),
              1e-5 * gradient_norm(cpu.gradient));
}

INSTANTIATE_TEST_SUITE_P(Cases, OnGpu, ::testing::ValuesIn(testing::llama_cases()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace lmtrain
