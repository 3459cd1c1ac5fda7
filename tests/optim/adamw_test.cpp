#include "optim/adamw.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "optim/support.h"
#include "support/llama_case.h"

namespace lmtrain {
namespace {

using testing::random_tensor;
using testing::read_json;
using testing::reference_folder;
using testing::same_bits;
using testing::small_parameters;
using testing::to_tensor;

// tests/reference/adamw: `matrix` is put where decay applies, `vector` where it does not.
// bf16 runs the fused kernel like fp32; fp16 ATen's operator on fp32 masters, as on a GPU.
class AdamWTest : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(AdamWTest, FollowsPyTorchThroughFiftySteps) {
  const double tolerance = GetParam() == at::kDouble ? 1e-12 : 1e-6;
  const SafetensorsFile golden(reference_folder("adamw/adamw.safetensors"));
  const nlohmann::json settings = read_json(reference_folder("adamw/adamw.json"));
  OptimizerConfig config;
  config.betas = settings.at("betas").get<std::vector<double>>();
  config.eps = settings.at("eps");
  config.weight_decay = settings.at("weight_decay");
  Parameters parameters(ParameterLayout(testing::small_model(), 37), GetParam(), at::kCPU);
  const std::map<std::string, int64_t> offsets = {{"matrix", 5},
                                                  {"vector", parameters.layout().decayed_size()}};
  const auto part = [&](const at::Tensor& flat, const std::string& name, const at::Tensor& like) {
    return flat.narrow(0, offsets.at(name), like.numel()).view(like.sizes());
  };
  AdamW optimizer(config, parameters);
  for (const auto& [name, offset] : offsets) {
    const at::Tensor start = to_tensor(golden.at(name + ".start"));
    part(parameters.master(), name, start).copy_(start);
  }
  const auto saved = settings.at("saved_steps").get<std::set<int64_t>>();
  double worst_weight = 0, worst_first = 0, worst_second = 0;
  for (int64_t step = 1; step <= 50; ++step) {
    const at::Tensor grad = at::zeros_like(parameters.master());
    for (const auto& [name, offset] : offsets) {
      const at::Tensor now = to_tensor(golden.at(name + ".grads"))[step - 1];
      part(grad, name, now).copy_(now);
    }
    optimizer.update({step, settings.at("lr")[static_cast<size_t>(step - 1)]}, grad);
    if (!saved.contains(step)) continue;
    for (const auto& [name, offset] : offsets) {
      const auto expected = [&, &tensor = name](const char* what) {
        return to_tensor(golden.at(tensor + ".step" + std::to_string(step) + "." + what));
      };
      const at::Tensor weights = expected("param");
      const double difference = testing::largest_elementwise_difference(
          part(parameters.master(), name, weights), weights);
      EXPECT_LE(difference, tolerance) << name << " step " << step;
      // The state's elements differ by ten orders of magnitude: each against its own gradients.
      const at::Tensor size = to_tensor(golden.at(name + ".grads")).abs().amax(0) + 1e-30;
      const auto relative = [&, &tensor = name](const char* what, const at::Tensor& scale) {
        const at::Tensor actual =
            part(testing::flat_moment(optimizer, parameters.layout(), what), tensor, weights);
        return ((actual.to(at::kDouble) - expected(what)).abs() / scale).max().item<double>();
      };
      const double first = relative("exp_avg", size);
      const double second = relative("exp_avg_sq", size.square() + 1e-37);
      EXPECT_LE(first, tolerance) << name << " step " << step;
      EXPECT_LE(second, tolerance) << name << " step " << step;
      worst_weight = std::max(worst_weight, difference);
      worst_first = std::max(worst_first, first);
      worst_second = std::max(worst_second, second);
    }
  }
  testing::record_difference("weights", worst_weight);
  testing::record_difference("exp_avg", worst_first);
  testing::record_difference("exp_avg_sq", worst_second);
  // Where weight and gradient are zero nothing moves.
  EXPECT_EQ(parameters.master().narrow(0, 0, 5).abs().max().item<double>(), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Precisions, AdamWTest,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble),
                         [](const auto& one) { return std::string(at::toString(one.param)); });

TEST(AdamW, ScalesTheGradientAsItReadsIt) {
  const at::Tensor grad = random_tensor({small_parameters().layout().flat_size()}, 3);
  Parameters plain = small_parameters(), scaled = small_parameters();
  AdamW plain_optimizer({}, plain), scaled_optimizer({}, scaled);
  for (int64_t step = 1; step <= 3; ++step) {
    plain_optimizer.update({step, 0.01}, grad);
    scaled_optimizer.update({step, 0.01, 0.125}, grad * 8);  // a power of two: the same bits
  }
  EXPECT_TRUE(same_bits(plain.master(), scaled.master()));
  const auto squares = [&](const AdamW& of) {
    return testing::flat_moment(of, plain.layout(), "exp_avg_sq");
  };
  EXPECT_TRUE(same_bits(squares(plain_optimizer), squares(scaled_optimizer)));
  EXPECT_GT(testing::largest_difference(plain.master(), small_parameters().master()), 1e-3);
}

TEST(AdamW, KeepsFp32MastersUnderBf16WorkingWeights) {
  Parameters fp32 = small_parameters(), bf16 = small_parameters(at::kBFloat16);
  AdamW fp32_optimizer({}, fp32), bf16_optimizer({}, bf16);
  const at::Tensor grad = random_tensor({fp32.layout().flat_size()}, 4);
  for (int64_t step = 1; step <= 3; ++step) {
    fp32_optimizer.update({step, 1e-4}, grad);
    bf16_optimizer.update({step, 1e-4}, grad);
  }
  EXPECT_TRUE(same_bits(fp32.master(), bf16.master()));
  EXPECT_TRUE(same_bits(bf16.working(), bf16.master().to(at::kBFloat16)));
}

}  // namespace
}  // namespace lmtrain
