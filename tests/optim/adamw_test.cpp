#include "optim/adamw.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/support.h"
#include "support/llama_case.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::random_tensor;
using testing::read_json;
using testing::reference_folder;
using testing::same_bits;
using testing::to_tensor;

ModelConfig small_model() {
  ModelConfig model;
  model.hidden_size = 16;
  model.intermediate_size = 23;
  model.num_hidden_layers = 2;
  return model;
}

Parameters small_parameters(at::ScalarType dtype = at::kFloat, int64_t vocab_size = 37) {
  Parameters parameters(ParameterLayout(small_model(), vocab_size), dtype, at::kCPU);
  parameters.initialize(1, 0.5);
  return parameters;
}

// tests/reference/adamw: `matrix` is put where decay applies, `vector` where it does not.
TEST(AdamW, FollowsPyTorchThroughFiftySteps) {
  const SafetensorsFile golden(reference_folder("adamw/adamw.safetensors"));
  const nlohmann::json settings = read_json(reference_folder("adamw/adamw.json"));
  OptimizerConfig config;
  config.betas = settings.at("betas").get<std::vector<double>>();
  config.eps = settings.at("eps");
  config.weight_decay = settings.at("weight_decay");
  Parameters parameters(ParameterLayout(small_model(), 37), at::kFloat, at::kCPU);
  const std::map<std::string, int64_t> places = {{"matrix", 5},
                                                 {"vector", parameters.layout().decayed_size()}};
  const auto place = [&](const at::Tensor& flat, const std::string& name, const at::Tensor& like) {
    return flat.narrow(0, places.at(name), like.numel()).view(like.sizes());
  };
  AdamW optimizer(config, parameters);
  for (const auto& [name, offset] : places) {
    const at::Tensor start = to_tensor(golden.at(name + ".start"));
    place(parameters.master(), name, start).copy_(start);
  }
  const auto saved = settings.at("saved_steps").get<std::set<int64_t>>();
  double worst_weight = 0, worst_first = 0, worst_second = 0;
  for (int64_t step = 1; step <= 50; ++step) {
    const at::Tensor grad = at::zeros_like(parameters.master());
    for (const auto& [name, offset] : places) {
      const at::Tensor now = to_tensor(golden.at(name + ".grads"))[step - 1];
      place(grad, name, now).copy_(now);
    }
    optimizer.update(step, settings.at("lr")[static_cast<size_t>(step - 1)], grad, 1.0);
    if (!saved.contains(step)) continue;
    for (const auto& [name, offset] : places) {
      const auto expected = [&, &tensor = name](const char* what) {
        return to_tensor(golden.at(tensor + ".step" + std::to_string(step) + "." + what));
      };
      const at::Tensor weights = expected("param");
      const double difference = testing::largest_elementwise_difference(
          place(parameters.master(), name, weights), weights);
      EXPECT_LE(difference, 1e-6) << name << " step " << step;
      // The state's elements differ by ten orders of magnitude: each against its own gradients.
      const at::Tensor size = to_tensor(golden.at(name + ".grads")).abs().amax(0) + 1e-30;
      const auto relative = [&](size_t buffer, const char* what, const at::Tensor& scale) {
        const at::Tensor actual = place(optimizer.buffers()[buffer].values, name, weights);
        return ((actual.to(at::kDouble) - expected(what)).abs() / scale).max().item<double>();
      };
      const double first = relative(0, "exp_avg", size);
      const double second = relative(1, "exp_avg_sq", size.square() + 1e-37);
      EXPECT_LE(first, 1e-6) << name << " step " << step;
      EXPECT_LE(second, 1e-6) << name << " step " << step;
      worst_weight = std::max(worst_weight, difference);
      worst_first = std::max(worst_first, first);
      worst_second = std::max(worst_second, second);
    }
  }
  testing::record_difference("weights", worst_weight);
  testing::record_difference("exp_avg", worst_first);
  testing::record_difference("exp_avg_sq", worst_second);
  // Where weight and gradient are zero nothing moves.
  EXPECT_EQ(parameters.master().narrow(0, 0, 5).abs().max().item<float>(), 0.0F);
}

TEST(AdamW, DecaysMatricesAndEmbeddingsAndNoNorm) {
  Parameters parameters = small_parameters();
  const at::Tensor before = parameters.master().clone();
  OptimizerConfig config;
  config.weight_decay = 0.5;
  AdamW optimizer(config, parameters);
  optimizer.update(1, 0.1, at::zeros_like(before), 1.0);
  for (const ParameterSpec& spec : parameters.layout().parameters()) {
    const at::Tensor was = testing::part(before, spec);
    const double factor = spec.shape.size() >= 2 ? 1 - 0.1 * 0.5 : 1.0;
    EXPECT_LE(testing::largest_difference(parameters.master_view(spec), was * factor), 1e-7)
        << spec.name;
  }
}

TEST(AdamW, ScalesTheGradientAsItReadsIt) {
  const at::Tensor grad = random_tensor({small_parameters().layout().flat_size()}, 3);
  Parameters plain = small_parameters(), scaled = small_parameters();
  AdamW plain_optimizer({}, plain), scaled_optimizer({}, scaled);
  for (int64_t step = 1; step <= 3; ++step) {
    plain_optimizer.update(step, 0.01, grad, 1.0);
    scaled_optimizer.update(step, 0.01, grad * 8, 0.125);  // a power of two: the same bits
  }
  EXPECT_TRUE(same_bits(plain.master(), scaled.master()));
  EXPECT_TRUE(same_bits(plain_optimizer.buffers()[1].values, scaled_optimizer.buffers()[1].values));
  EXPECT_GT(testing::largest_difference(plain.master(), small_parameters().master()), 1e-3);
}

TEST(AdamW, KeepsFp32MastersUnderBf16WorkingWeights) {
  Parameters fp32 = small_parameters(), bf16 = small_parameters(at::kBFloat16);
  AdamW fp32_optimizer({}, fp32), bf16_optimizer({}, bf16);
  const at::Tensor grad = random_tensor({fp32.layout().flat_size()}, 4);
  for (int64_t step = 1; step <= 3; ++step) {
    fp32_optimizer.update(step, 1e-4, grad, 1.0);
    bf16_optimizer.update(step, 1e-4, grad, 1.0);
  }
  EXPECT_TRUE(same_bits(fp32.master(), bf16.master()));
  EXPECT_TRUE(same_bits(bf16.working(), bf16.master().to(at::kBFloat16)));
}

TEST(AdamW, BitsDoNotDependOnThreads) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> masters, workings, states;
    for (const int threads : {1, 2, 3}) {
      const testing::Threads scope(threads);
      Parameters parameters = small_parameters(dtype, 5003);
      AdamW optimizer({}, parameters);
      const at::Tensor grad = random_tensor({parameters.layout().flat_size()}, 5);
      for (int64_t step = 1; step <= 2; ++step) optimizer.update(step, 0.01, grad, 0.3);
      masters.push_back(parameters.master());
      workings.push_back(parameters.working());
      states.push_back(optimizer.buffers()[1].values);
    }
    ASSERT_GT(masters[0].numel(), 2 * 16384);  // enough to share
    for (const size_t i : {1U, 2U}) {
      EXPECT_TRUE(same_bits(masters[0], masters[i]));
      EXPECT_TRUE(same_bits(workings[0], workings[i]));
      EXPECT_TRUE(same_bits(states[0], states[i]));
    }
  }
}

// What resume restores is all there is: a second optimizer given weights and buffers goes on alike.
TEST(AdamW, ItsBuffersAreItsWholeState) {
  Parameters parameters = small_parameters();
  AdamW optimizer({}, parameters);
  ASSERT_EQ(optimizer.buffers().size(), 2U);
  EXPECT_EQ(optimizer.buffers()[0].name, "exp_avg");
  EXPECT_EQ(optimizer.buffers()[1].name, "exp_avg_sq");
  for (const OptimizerBuffer& buffer : optimizer.buffers()) {
    EXPECT_EQ(buffer.values.sizes(), parameters.master().sizes());
    EXPECT_EQ(buffer.values.abs().max().item<float>(), 0.0F);
  }
  const at::Tensor grad = random_tensor({parameters.layout().flat_size()}, 6);
  optimizer.update(1, 0.01, grad, 1.0);
  optimizer.update(2, 0.01, grad, 1.0);

  Parameters copy = small_parameters();
  copy.master().copy_(parameters.master());
  AdamW resumed({}, copy);
  for (size_t i = 0; i < 2; ++i) resumed.buffers()[i].values.copy_(optimizer.buffers()[i].values);
  optimizer.update(3, 0.01, grad.flip(0), 1.0);
  resumed.update(3, 0.01, grad.flip(0), 1.0);
  EXPECT_TRUE(same_bits(copy.master(), parameters.master()));
}

TEST(Optimizer, IsMadeByName) {
  Parameters parameters = small_parameters();
  OptimizerConfig config;
  EXPECT_EQ(make_optimizer(config, parameters)->buffers().size(), 2U);
  config.type = "lion";
  const std::string message =
      error_of(ErrorKind::kConfig, [&] { make_optimizer(config, parameters); });
  EXPECT_NE(message.find("\"lion\""), std::string::npos) << message;
}

}  // namespace
}  // namespace lmtrain
