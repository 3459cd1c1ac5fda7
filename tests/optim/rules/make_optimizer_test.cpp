// What holds for every rule.
#include "optim/rules/make_optimizer.h"

#include <numbers>
#include <set>

#include "base/support.h"
#include "optim/support.h"

namespace lmtrain {
namespace {

using testing::config_of;
using testing::random_tensor;
using testing::same_bits;
using testing::small_parameters;
using testing::small_parameters_for;

const RunClock kMiddle{.total = 100, .steps = 50};

class OptimizerTest : public ::testing::TestWithParam<std::string> {};
class DecoupledDecay : public ::testing::TestWithParam<std::string> {};

TEST_P(DecoupledDecay, DecaysMatricesAndEmbeddingsAndNoNorm) {
  Parameters parameters = small_parameters_for(GetParam());
  OptimizerConfig config = config_of(GetParam());
  config.weight_decay = 0.5;
  const auto optimizer = make_optimizer(config, parameters);
  const at::Tensor zero = at::zeros_like(parameters.master());
  optimizer->update({1, 0.1, 1, kMiddle}, zero);  // SOAP's first step moves nothing
  const at::Tensor before = parameters.master().clone();
  optimizer->update({2, 0.1, 1, kMiddle}, zero);
  for (const ParameterSpec& spec : parameters.layout().parameters()) {
    const at::Tensor was = before.narrow(0, spec.offset, spec.numel()).view(spec.shape);
    const double factor = spec.shape.size() >= 2 ? 1 - 0.1 * 0.5 : 1.0;
    EXPECT_LE(testing::largest_difference(parameters.master_view(spec), was * factor), 1e-6)
        << spec.name;
  }
}

// The element-wise rules; those of matrices compute the same bits in every run with as many
// threads.
TEST_P(OptimizerTest, BitsDoNotDependOnThreads) {
  const bool is_muon = GetParam().ends_with("muon");
  const bool element_wise = !is_muon && GetParam() != "soap";
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> masters, workings, moments;
    for (const int threads : {2, element_wise ? 1 : 2, element_wise ? 3 : 2}) {
      const testing::Threads scope(threads);
      Parameters parameters = small_parameters_for(GetParam(), dtype, 5003);
      const auto optimizer = make_optimizer(config_of(GetParam()), parameters);
      for (int64_t step = 1; step <= 12; ++step) {
        const at::Tensor grad =
            random_tensor({parameters.layout().flat_size()}, static_cast<uint64_t>(step));
        optimizer->update({step, 0.01, 0.3, kMiddle}, grad);
      }
      masters.push_back(parameters.master());
      workings.push_back(parameters.working());
      moments.push_back(testing::flat_moment(*optimizer, parameters.layout(),
                                             testing::first_moment_of(GetParam())));
    }
    ASSERT_GT(masters[0].numel(), 2 * 16384);  // enough to share
    for (const size_t i : {1U, 2U}) {
      EXPECT_TRUE(same_bits(masters[0], masters[i]));
      EXPECT_TRUE(same_bits(workings[0], workings[i]));
      EXPECT_TRUE(same_bits(moments[0], moments[i]));
    }
    EXPECT_GT(testing::largest_difference(masters[0],
                                          small_parameters_for(GetParam(), dtype, 5003).master()),
              1e-3);
  }
}

TEST_P(OptimizerTest, WorkingWeightsAreTheMastersRounded) {
  if (!trains_at_masters(config_of(GetParam()))) GTEST_SKIP() << "ScheduleFree tests what they are";
  Parameters parameters = small_parameters_for(GetParam(), at::kBFloat16);
  const auto optimizer = make_optimizer(config_of(GetParam()), parameters);
  for (int64_t step = 1; step <= 3; ++step) {
    optimizer->update({step, 0.01, 1, kMiddle}, random_tensor(parameters.master().sizes(), 4));
    EXPECT_TRUE(same_bits(parameters.working(), parameters.master().to(at::kBFloat16)));
  }
}

// Gaps between tensors are zero in a checkpoint's flat buffer and must stay so.
TEST_P(OptimizerTest, GapsBetweenTensorsStayZero) {
  Parameters parameters = small_parameters_for(GetParam());
  const at::Tensor in_gap = at::ones_like(parameters.master());
  for (const ParameterSpec& spec : parameters.layout().parameters()) {
    in_gap.narrow(0, spec.offset, spec.numel()).zero_();
  }
  ASSERT_GT(in_gap.sum().item<double>(), 0);
  const auto optimizer = make_optimizer(config_of(GetParam()), parameters);
  for (int64_t step = 1; step <= 3; ++step) {
    const at::Tensor grad = random_tensor(parameters.master().sizes(), 5) * (1 - in_gap);
    optimizer->update({step, 0.01, 1, kMiddle}, grad);
  }
  EXPECT_EQ((parameters.master() * in_gap).abs().max().item<float>(), 0.0F);
}

TEST_P(OptimizerTest, NamesItsBuffersByTensor) {
  Parameters parameters = small_parameters_for(GetParam());
  const auto optimizer = make_optimizer(config_of(GetParam()), parameters);
  const std::map<std::string, std::set<std::string>> of_matrix = {
      {"adamw", {"exp_avg", "exp_avg_sq"}},
      {"lion", {"exp_avg"}},
      {"ademamix", {"exp_avg", "exp_avg_slow", "exp_avg_sq"}},
      {"muon", {"momentum_buffer"}},
      {"normuon", {"momentum_buffer", "second_momentum"}},
      {"soap", {"exp_avg", "exp_avg_sq", "L", "R", "Q_L", "Q_R"}},
      {"sgd", {"momentum_buffer"}},
      {"rmsprop", {"exp_avg_sq"}},
      {"adam", {"exp_avg", "exp_avg_sq"}},
      {"adopt", {"exp_avg", "exp_avg_sq"}},
      {"mars", {"last_grad", "exp_avg", "exp_avg_sq"}},
      {"schedule_free", {"z", "exp_avg_sq", "weight_sum"}},
      {"prodigy", {"exp_avg", "exp_avg_sq", "s", "initial"}}};
  const std::string matrix = "model.layers.1.mlp.gate_proj.weight";
  std::set<std::string> all, names;
  for (const OptimizerBuffer& buffer : optimizer->buffers()) {
    EXPECT_TRUE(all.insert(buffer.name).second) << buffer.name << " twice";
    EXPECT_TRUE(buffer.values.is_contiguous()) << buffer.name;
    const size_t dot = buffer.name.find('.');
    if (buffer.name.substr(dot + 1) == matrix) names.insert(buffer.name.substr(0, dot));
  }
  EXPECT_EQ(names, of_matrix.at(GetParam()));
  const bool is_muon = GetParam().ends_with("muon");
  const std::string moment = is_muon ? "exp_avg" : testing::first_moment_of(GetParam());
  EXPECT_TRUE(all.contains(moment + ".model.norm.weight"));
}

// Betas and weight decay on their way over the run: each update is that of an optimizer which has
// the values of its position for good. A constant one ends elsewhere.
TEST_P(OptimizerTest, BetasAndWeightDecayGoOverTheRun) {
  constexpr int64_t kUpdates = 12;
  const auto position = [](int64_t step) {
    return RunClock{.total = kUpdates, .steps = static_cast<double>(step)};
  };
  const auto gradient = [](const Parameters& parameters, int64_t step) {
    return random_tensor(parameters.master().sizes(), static_cast<uint64_t>(step));
  };
  OptimizerConfig config = config_of(GetParam());
  config.weight_decay_end_ratio = 4;
  config.end_shape = EndShape::kCosine;
  config.groups = {{"*embed*", std::nullopt, 0.3}};
  const bool keeps_betas =
      GetParam() == "ademamix" || GetParam() == "schedule_free" || GetParam() == "prodigy";
  if (!keeps_betas) config.betas_end = {0.5, 0.8};
  if (config.betas.size() < 2) config.betas_end.resize(config.betas.size());
  OptimizerConfig constant = config;
  constant.weight_decay_end_ratio = 1;
  constant.betas_end = {};

  Parameters moving = small_parameters_for(GetParam()), stepwise = small_parameters_for(GetParam()),
             still = small_parameters_for(GetParam());
  const auto optimizer = make_optimizer(config, moving);
  const auto unmoved = make_optimizer(constant, still);
  std::vector<OptimizerBuffer> state;
  for (int64_t step = 1; step <= kUpdates; ++step) {
    optimizer->update({step, 0.01, 1, position(step)}, gradient(moving, step));
    unmoved->update({step, 0.01, 1, position(step)}, gradient(still, step));

    const double p = (1 - std::cos(std::numbers::pi * static_cast<double>(step) / kUpdates)) / 2;
    OptimizerConfig here = constant;
    here.weight_decay *= 1 + 3 * p;
    here.groups[0].weight_decay = 0.3 * (1 + 3 * p);
    for (size_t i = 0; i < config.betas_end.size(); ++i) {
      here.betas[i] += p * (config.betas_end[i] - config.betas[i]);
    }
    const auto fresh = make_optimizer(here, stepwise);
    for (size_t i = 0; i < state.size(); ++i) fresh->buffers()[i].values.copy_(state[i].values);
    fresh->update({step, 0.01, 1, position(step)}, gradient(stepwise, step));
    state = fresh->buffers();
  }
  double from_constant = 0;
  for (const ParameterSpec& spec : moving.layout().parameters()) {
    const at::Tensor weight = moving.master_view(spec);
    EXPECT_LE(testing::largest_difference(weight, stepwise.master_view(spec)), 1e-6) << spec.name;
    from_constant =
        std::max(from_constant, testing::largest_difference(weight, still.master_view(spec)));
  }
  EXPECT_GT(from_constant, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Rules, OptimizerTest,
                         ::testing::Values("adamw", "lion", "ademamix", "muon", "normuon", "soap",
                                           "sgd", "rmsprop", "adam", "adopt", "mars",
                                           "schedule_free", "prodigy"),
                         [](const auto& one) { return one.param; });
INSTANTIATE_TEST_SUITE_P(Rules, DecoupledDecay,
                         ::testing::Values("adamw", "lion", "ademamix", "muon", "normuon", "soap",
                                           "sgd", "rmsprop", "adopt", "mars"),
                         [](const auto& one) { return one.param; });

TEST(Soap, RotatesNoVocabularyAndNoLongSide) {
  Parameters parameters = small_parameters();
  OptimizerConfig config = config_of("soap");
  config.max_precond_dim = 20;  // of hidden size 16 and intermediate size 23
  const auto optimizer = make_optimizer(config, parameters);
  std::set<std::string> names;
  for (const OptimizerBuffer& buffer : optimizer->buffers()) names.insert(buffer.name);
  EXPECT_FALSE(names.contains("L.model.embed_tokens.weight"));
  EXPECT_TRUE(names.contains("R.model.embed_tokens.weight"));
  EXPECT_FALSE(names.contains("L.model.layers.0.mlp.gate_proj.weight"));
  EXPECT_TRUE(names.contains("R.model.layers.0.mlp.gate_proj.weight"));
  EXPECT_TRUE(names.contains("L.model.layers.0.mlp.down_proj.weight"));
  EXPECT_FALSE(names.contains("R.model.layers.0.mlp.down_proj.weight"));
  EXPECT_FALSE(names.contains("R.model.norm.weight"));
}

// A matrix no gradient has reached yet has no eigenvectors of its own.
TEST(Soap, ZeroGradientsGiveNoNaN) {
  Parameters parameters = small_parameters();
  const at::Tensor before = parameters.master().clone();
  OptimizerConfig config = config_of("soap");
  config.weight_decay = 0;
  const auto optimizer = make_optimizer(config, parameters);
  for (int64_t step = 1; step <= 12; ++step) {
    optimizer->update({step, 0.1, 1, kMiddle}, at::zeros_like(before));
  }
  EXPECT_TRUE(same_bits(parameters.master(), before));
}

}  // namespace
}  // namespace lmtrain
