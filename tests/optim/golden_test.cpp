// Every rule against tests/reference/optimizers: double precision by numpy, fifty steps, resumed in
// the middle, through optimizer.groups; and Muon against torch.optim.Muon.
#include <ATen/ops/logical_or.h>
#include <ATen/ops/mv.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "optim/make_optimizer.h"
#include "optim/muon.h"
#include "support/llama_case.h"

namespace lmtrain {
namespace {

using testing::read_json;
using testing::reference_folder;
using testing::to_tensor;

ModelConfig reference_model() {
  ModelConfig model;
  model.hidden_size = 6;
  model.intermediate_size = 7;
  model.num_hidden_layers = 1;
  model.num_attention_heads = model.num_key_value_heads = 3;
  model.tie_word_embeddings = false;
  return model;
}

struct Golden {
  explicit Golden(const std::string& rule)
      : settings(read_json(reference_folder("optimizers/optimizers.json"))),
        saved_steps(settings.at("saved_steps").get<std::vector<int64_t>>()),
        inputs(reference_folder("optimizers/inputs.safetensors")),
        file(reference_folder("optimizers/" + rule + ".safetensors")) {
    const nlohmann::json& own = settings.at("rules").at(rule == "torch_muon" ? "muon" : rule);
    config.type = value_named<OptimizerType>(own.at("type").get<std::string>()).value();
    config.betas = own.value("betas", config.betas);
    config.lr = settings.at("lr");
    config.eps = own.value("eps", settings.at("eps").get<double>());
    config.momentum = own.value("momentum", config.momentum);
    config.weight_decay = settings.at("weight_decay");
    config.nesterov = own.value("nesterov", config.nesterov);
    config.adjust_lr =
        value_named<AdjustLr>(own.value("adjust_lr", name_of(config.adjust_lr))).value();
    config.max_precond_dim = own.value("max_precond_dim", config.max_precond_dim);
    config.alpha_warmup = {own.value("alpha_warmup", 0.0), TrainingDuration::Unit::kSteps};
    config.beta3_warmup = {own.value("beta3_warmup", 0.0), TrainingDuration::Unit::kSteps};
    for (const nlohmann::json& group : settings.at("groups")) {
      OptimizerGroupConfig& added = config.groups.emplace_back();
      added.pattern = group.at("pattern");
      if (group.contains("lr")) added.lr = group.at("lr").get<double>();
      if (group.contains("weight_decay")) added.weight_decay = group.at("weight_decay");
    }
  }

  // The generator's tensors lie one after another, in the order of the layout but without its gaps.
  static at::Tensor spread(const ParameterLayout& layout, const at::Tensor& dense) {
    const at::Tensor flat = at::zeros({layout.flat_size()}, at::kDouble);
    int64_t from = 0;
    for (const ParameterSpec& spec : layout.parameters()) {
      flat.narrow(0, spec.offset, spec.numel()).copy_(dense.narrow(0, from, spec.numel()));
      from += spec.numel();
    }
    EXPECT_EQ(from, dense.numel());
    return flat;
  }

  at::Tensor gradient(const ParameterLayout& layout, int64_t step) const {
    const at::Tensor mix = to_tensor(inputs.at("coefficients"))[step - 1];
    return spread(layout, at::mv(to_tensor(inputs.at("basis")).t(), mix));
  }
  at::Tensor start(const ParameterLayout& layout) const {
    return spread(layout, to_tensor(inputs.at("start")));
  }
  double rate(int64_t step) const {
    return settings.at("rates")[static_cast<size_t>(step - 1)].get<double>();
  }

  nlohmann::json settings;
  std::vector<int64_t> saved_steps;
  SafetensorsFile inputs, file;
  OptimizerConfig config;
};

// Which code runs: the fused kernels where a rule has them (kFloat, kBFloat16), or ATen operators
// on fp32 masters, as on a GPU (kHalf), or on fp64.
struct Training {
  using Make = std::function<std::unique_ptr<Optimizer>(const OptimizerConfig&, Parameters&)>;

  Training(const Golden& from, at::ScalarType dtype, Make maker)
      : golden(from),
        make(std::move(maker)),
        parameters(parameters_in(ParameterLayout(reference_model(), 8), dtype)),
        optimizer(make(golden.config, *parameters)) {
    parameters->master().copy_(golden.start(layout()));
    parameters->refresh_working();
  }

  const ParameterLayout& layout() const { return parameters->layout(); }

  std::unique_ptr<Parameters> parameters_in(const ParameterLayout& layout,
                                            at::ScalarType dtype) const {
    return std::make_unique<Parameters>(layout, dtype, at::kCPU);
  }

  void update(int64_t step) {
    const RunClock position{.total = 50, .steps = static_cast<double>(step)};
    // Handed over eight times too large, to be scaled down.
    const at::Tensor grad = golden.gradient(layout(), step).to(parameters->master().scalar_type());
    optimizer->update({step, golden.rate(step), 0.125, position}, grad * 8);
  }

  // As a resume does: another optimizer over other memory, given what is saved.
  void resume() {
    auto loaded = parameters_in(layout(), parameters->working().scalar_type());
    loaded->master().copy_(parameters->master());
    loaded->refresh_working();
    auto next = make(golden.config, *loaded);
    ASSERT_EQ(next->buffers().size(), optimizer->buffers().size());
    for (size_t i = 0; i < next->buffers().size(); ++i) {
      EXPECT_EQ(next->buffers()[i].name, optimizer->buffers()[i].name);
      EXPECT_EQ(next->buffers()[i].values.abs().sum().item<double>(), 0) << "zeros at the start";
      next->buffers()[i].values.copy_(optimizer->buffers()[i].values);
    }
    EXPECT_TRUE(testing::same_bits(loaded->working(), parameters->working()));
    optimizer = std::move(next);
    parameters = std::move(loaded);
  }

  const Golden& golden;
  Make make;
  std::unique_ptr<Parameters> parameters;
  std::unique_ptr<Optimizer> optimizer;
};

Training::Make muon_in(at::ScalarType dtype) {
  return [dtype](const OptimizerConfig& config, Parameters& parameters) {
    return std::make_unique<Muon>(config, parameters, dtype);
  };
}

// The exact rule whatever this processor would iterate in.
Training::Make maker(const Golden& golden, at::ScalarType dtype) {
  if (golden.config.type != OptimizerType::kMuon) {
    return [](const OptimizerConfig& config, Parameters& parameters) {
      return make_optimizer(config, parameters);
    };
  }
  return muon_in(dtype == at::kDouble ? at::kDouble : at::kFloat);
}

bool is_spectral(const std::string& rule) {
  return rule.starts_with("muon") || rule.starts_with("soap");
}

class RuleTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Fifty steps, resumed after the tenth; calls check(step, run, expected weights) where the golden
  // has them.
  template <class Check>
  void run_all(at::ScalarType dtype, const Check& check) const {
    const testing::Threads one_thread(1);
    const Golden golden(GetParam());
    Training run(golden, dtype, maker(golden, dtype));
    const at::Tensor weights = to_tensor(golden.file.at("weights"));
    int64_t saved = 0;
    for (int64_t step = 1; step <= 50; ++step) {
      run.update(step);
      if (step == golden.saved_steps[static_cast<size_t>(saved)]) {
        check(step, run, Golden::spread(run.layout(), weights[saved++]));
      }
      if (step == 10) run.resume();
    }
    EXPECT_EQ(saved, weights.size(0));
  }

  void check_fp32(at::ScalarType working) const {
    const Golden golden(GetParam());
    double worst = 0;
    run_all(working, [&](int64_t step, const Training& run, const at::Tensor& expected) {
      const at::Tensor actual = run.parameters->master();
      const at::Tensor start = golden.start(run.layout());
      double difference = 0, bound = 1e-6;
      const bool waits = GetParam().starts_with("soap") || GetParam() == "adopt";
      if (step == 1 && waits) {
        EXPECT_TRUE(testing::same_bits(actual, start.to(at::kFloat))) << "step 1 moves nothing";
      } else if (is_spectral(GetParam())) {
        difference = ((actual - expected).norm() / (expected - start).norm()).item<double>();
        bound = 1e-4;  // of the update's norm
      } else if (GetParam() == "lion") {
        // Rounding may turn a sign whose argument nearly vanishes.
        const at::Tensor margin = Golden::spread(run.layout(), to_tensor(golden.file.at("margin")));
        const at::Tensor sure = at::logical_or(margin > 1e-5, start == 0);
        EXPECT_GE(sure.to(at::kDouble).mean().item<double>(), 0.99);
        difference = testing::largest_elementwise_difference(actual.masked_select(sure),
                                                             expected.masked_select(sure));
      } else {
        difference = testing::largest_elementwise_difference(actual, expected);
        if (GetParam().starts_with("sgd")) bound = 2e-6;  // its steps are the largest
      }
      EXPECT_LE(difference, bound) << "step " << step;
      worst = std::max(worst, difference);
      EXPECT_TRUE(testing::same_bits(run.parameters->working(), actual.to(working)));
    });
    testing::record_difference("difference", worst);
  }
};

TEST_P(RuleTest, FollowsTheReferenceInDouble) {
  double worst = 0;
  run_all(at::kDouble, [&](int64_t step, const Training& run, const at::Tensor& expected) {
    const double difference =
        testing::largest_elementwise_difference(run.parameters->master(), expected);
    EXPECT_LE(difference, 1e-12) << "step " << step;
    worst = std::max(worst, difference);
  });
  testing::record_difference("difference", worst);
}

TEST_P(RuleTest, FollowsTheReferenceInFp32) { check_fp32(at::kFloat); }
TEST_P(RuleTest, FollowsTheReferenceUnderBf16WorkingWeights) { check_fp32(at::kBFloat16); }
TEST_P(RuleTest, FollowsTheReferenceWithoutKernels) { check_fp32(at::kHalf); }

// A resume that forgets one buffer does not pass unseen.
TEST_P(RuleTest, EveryBufferCounts) {
  const testing::Threads one_thread(1);
  const Golden golden(GetParam());
  const auto make = maker(golden, at::kDouble);
  Training whole(golden, at::kDouble, make);
  for (int64_t step = 1; step <= 50; ++step) whole.update(step);
  for (size_t lost = 0; lost < whole.optimizer->buffers().size(); ++lost) {
    Training run(golden, at::kDouble, make);
    for (int64_t step = 1; step <= 50; ++step) {
      if (step == 6) run.optimizer->buffers()[lost].values.zero_();
      run.update(step);
    }
    EXPECT_GT(testing::largest_difference(run.parameters->master(), whole.parameters->master()),
              1e-9)
        << whole.optimizer->buffers()[lost].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, RuleTest,
                         ::testing::Values("adamw", "lion", "ademamix", "muon", "muon_original",
                                           "soap", "soap_oversized", "sgd", "sgd_heavy_ball",
                                           "rmsprop", "adam", "adopt", "mars"),
                         [](const auto& one) { return one.param; });

TEST(Muon, IteratedInBf16IsTorchs) {
  const testing::Threads one_thread(1);
  const Golden golden("torch_muon");
  Training run(golden, at::kFloat, muon_in(at::kBFloat16));
  const at::Tensor expected = to_tensor(golden.file.at("weights"));
  const auto hidden = [&](const at::Tensor& flat) {
    std::vector<at::Tensor> parts;
    for (const ParameterSpec& spec : run.layout().parameters()) {
      if (is_hidden_matrix(spec)) parts.push_back(flat.narrow(0, spec.offset, spec.numel()));
    }
    return at::cat(parts);
  };
  const at::Tensor start = hidden(golden.start(run.layout()));
  int64_t saved = 0;
  double worst = 0;
  for (int64_t step = 1; step <= 50; ++step) {
    run.update(step);
    if (step != golden.saved_steps[static_cast<size_t>(saved)]) continue;
    const at::Tensor should = expected[saved++];
    const double difference =
        ((hidden(run.parameters->master()) - should).norm() / (should - start).norm())
            .item<double>();
    EXPECT_LE(difference, 2e-2) << "step " << step;
    worst = std::max(worst, difference);
  }
  testing::record_difference("difference", worst);
}

}  // namespace
}  // namespace lmtrain
