// What holds for every rule.
#include "optim/make_optimizer.h"

#include <set>

#include "base/support.h"
#include "optim/support.h"

namespace lmtrain {
namespace {

using testing::config_of;
using testing::random_tensor;
using testing::same_bits;
using testing::small_parameters;

const RunClock kMiddle{.total = 100, .steps = 50};

class OptimizerTest : public ::testing::TestWithParam<std::string> {};
class DecoupledDecay : public ::testing::TestWithParam<std::string> {};

TEST_P(DecoupledDecay, DecaysMatricesAndEmbeddingsAndNoNorm) {
  Parameters parameters = small_parameters();
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
      Parameters parameters = small_parameters(dtype, 5003);
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
    EXPECT_GT(testing::largest_difference(masters[0], small_parameters(dtype, 5003).master()),
              1e-3);
  }
}

TEST_P(OptimizerTest, WorkingWeightsAreTheMastersRounded) {
  Parameters parameters = small_parameters(at::kBFloat16);
  const auto optimizer = make_optimizer(config_of(GetParam()), parameters);
  for (int64_t step = 1; step <= 3; ++step) {
    optimizer->update({step, 0.01, 1, kMiddle}, random_tensor(parameters.master().sizes(), 4));
    EXPECT_TRUE(same_bits(parameters.working(), parameters.master().to(at::kBFloat16)));
  }
}

// Gaps between tensors are zero in a checkpoint's flat buffer and must stay so.
TEST_P(OptimizerTest, GapsBetweenTensorsStayZero) {
  Parameters parameters = small_parameters();
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
  Parameters parameters = small_parameters();
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
      {"mars", {"last_grad", "exp_avg", "exp_avg_sq"}}};
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

INSTANTIATE_TEST_SUITE_P(Rules, OptimizerTest,
                         ::testing::Values("adamw", "lion", "ademamix", "muon", "normuon", "soap",
                                           "sgd", "rmsprop", "adam", "adopt", "mars"),
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
