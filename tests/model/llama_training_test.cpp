// Ten steps of training as transformers and PyTorch make them: model, clipping, schedule, AdamW.
#include <gtest/gtest.h>

#include "model/llama.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "schedule/lr_schedule.h"
#include "support/llama_case.h"

namespace lmtrain {
namespace {

using testing::LlamaCase;
using testing::same_bits;

struct Training {
  std::vector<double> losses, grad_norms;
  at::Tensor weights;
};

Training train(LlamaCase& golden, CompileMode compile) {
  const nlohmann::json& settings = golden.golden.at("adamw");
  OptimizerConfig optimizer_config;
  optimizer_config.betas = settings.at("betas").get<std::vector<double>>();
  optimizer_config.eps = settings.at("eps");
  optimizer_config.weight_decay = settings.at("weight_decay");
  const ClipConfig clip{ClipType::kNorm, settings.at("clip_max_norm")};
  const nlohmann::json& schedule = settings.at("lr_schedule");
  LrScheduleConfig lr_config;
  lr_config.type = value_named<LrScheduleType>(schedule.at("type").get<std::string>()).value();
  lr_config.warmup = {schedule.at("warmup"), TrainingDuration::Unit::kSteps};
  lr_config.warmup_shape =
      value_named<WarmupShape>(schedule.at("warmup_shape").get<std::string>()).value();
  lr_config.warmup_start = schedule.at("warmup_start");
  lr_config.min_ratio = schedule.at("min_ratio");
  const LrSchedule lr(lr_config, settings.at("lr_peak"),
                      {.total = schedule.at("steps").get<double>()});

  Llama llama = golden.llama(compile);
  const auto optimizer = make_optimizer(optimizer_config, golden.parameters);
  const at::Tensor ids = golden.tensor("adamw.input_ids"), labels = golden.tensor("adamw.labels");
  const at::Tensor gradient = golden.new_gradient();
  Training run;
  for (int64_t step = 0; step < ids.size(0); ++step) {
    const double scale = 1.0 / (labels[step] >= 0).sum().item<double>();
    run.losses.push_back(
        llama.loss_and_gradient(micro_batch(ids[step], labels[step], scale), gradient, true)
            .item<double>());
    run.grad_norms.push_back(gradient_norm(gradient, golden.parameters.layout()));
    const double factor = clip_gradient(clip, gradient, run.grad_norms.back());
    EXPECT_LT(factor, 1.0);
    const double rate = lr.at(static_cast<double>(step));
    EXPECT_NEAR(rate, settings.at("lr")[static_cast<size_t>(step)].get<double>(), 1e-15);
    optimizer->update({step + 1, rate, factor}, gradient);
  }
  run.weights = golden.parameters.master().clone();
  return run;
}

class TenStepsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TenStepsTest, LossesAreThoseOfTransformersInEagerAndScript) {
  Training runs[2];
  for (const size_t i : {0U, 1U}) {
    LlamaCase golden(GetParam());
    runs[i] = train(golden, i == 0 ? CompileMode::kEager : CompileMode::kScript);
    const nlohmann::json& expected = golden.golden.at("adamw");
    double largest = 0;
    for (size_t step = 0; step < 10; ++step) {
      const double loss = expected.at("losses")[step];
      const double norm = expected.at("grad_norms")[step];
      const double difference = std::abs(runs[i].losses[step] - loss) / std::max(1.0, loss);
      EXPECT_LE(difference, 1e-5) << "step " << step;
      EXPECT_NEAR(runs[i].grad_norms[step], norm, 1e-5 * std::max(1.0, norm)) << "step " << step;
      largest = std::max(largest, difference);
    }
    testing::record_difference("difference", largest);
  }
  EXPECT_EQ(runs[0].losses, runs[1].losses);
  EXPECT_EQ(runs[0].grad_norms, runs[1].grad_norms);
  EXPECT_TRUE(same_bits(runs[0].weights, runs[1].weights));
}

TEST_P(TenStepsTest, Bf16FollowsFp32) {
  LlamaCase golden(GetParam(), at::kBFloat16);
  const Training run = train(golden, CompileMode::kScript);
  for (size_t step = 0; step < 10; ++step) {
    const double loss = golden.golden.at("adamw").at("losses")[step];
    EXPECT_NEAR(run.losses[step], loss, 2e-2 * loss) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, TenStepsTest, ::testing::ValuesIn(testing::llama_cases()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace lmtrain
