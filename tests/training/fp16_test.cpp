// fp16 working weights with dynamic loss scaling, on a CPU.
#include "checkpoint/given_model.h"
#include "support/tensors.h"
#include "training/step.h"
#include "training/tiny_model.h"
#include "training/tiny_run.h"

namespace lmtrain {
namespace {

using testing::Json;
using testing::TinyRun;

// Gradients so large that they overflow at the first scale.
Json overflowing() { return {{"precision", "fp16"}, {"model", {{"initializer_range", 1.0}}}}; }

TEST(Fp16, AnOverflowingModelRecovers) {
  const TinyRun tiny(overflowing());
  Trainer trainer = tiny.trainer();
  int64_t not_finite = 0;
  const auto count = [&](const Batch&, double& loss, const at::Tensor& grad) {
    EXPECT_TRUE(std::isfinite(loss));
    not_finite += grad.isfinite().all().item<bool>() ? 0 : 1;
  };
  EXPECT_EQ(trainer.run({.after_backward = count}).exit_code, 0);
  EXPECT_GT(not_finite, 0) << "nothing overflowed";
  const std::vector<Json> skips = tiny.events("skip");
  EXPECT_EQ(static_cast<int64_t>(skips.size()), not_finite);
  double scale = 65536;
  for (const Json& skip : skips) {
    EXPECT_EQ(skip.at("reason"), "loss_scale");
    EXPECT_EQ(skip.at("loss_scale"), scale);
    scale /= 2;
    EXPECT_TRUE(skip.at("tensor").is_string());
  }
  EXPECT_EQ(tiny.state(40).loss_scale->scale, scale);
  EXPECT_EQ(tiny.state(40).guard.skips_in_a_row, 0);
  for (const int64_t step : {5, 20, 40}) {
    Parameters parameters(ParameterLayout(tiny.config.model, *tiny.config.model.vocab_size),
                          at::kHalf, at::kCPU);
    load_initial_weights(tiny.run.checkpoint(step).string(), parameters, "");
    EXPECT_TRUE(parameters.master().isfinite().all().item<bool>());
    EXPECT_TRUE(parameters.working().isfinite().all().item<bool>());
  }
  const std::vector<Json> lines = tiny.lines(tiny.run.metrics());
  EXPECT_LT(lines.back().at("eval_loss").get<double>(),
            lines.front().at("eval_loss").get<double>());
}

TEST(Fp16, ResumesToTheSameBits) {
  const TinyRun tiny(overflowing());
  tiny.trainer().run();
  const std::string whole = tiny.bytes(40);
  for (const int64_t step : {5, 20}) {
    tiny.trainer(step).run();
    // Run again to the end from an earlier checkpoint, over the later ones.
    EXPECT_TRUE(tiny.bytes(40) == whole) << step;
  }
}

TEST(Fp16, AtTheFloorAnOverflowCounts) {
  const TinyRun tiny(Json{{"precision", "fp16"}, {"guard", {{"max_skips", 3}}}});
  Trainer trainer = tiny.trainer();
  const auto spoil = [](const Batch& batch, double&, const at::Tensor& grad) {
    if (batch.index >= 5) grad[3] = HUGE_VAL;
  };
  testing::error_of(ErrorKind::kNumeric, [&] { trainer.run({.after_backward = spoil}); });
  const std::vector<Json> skips = tiny.events("skip");
  // From 2^16 down to 1, then three that count.
  ASSERT_EQ(skips.size(), 16U + 3U);
  EXPECT_EQ(skips.back().at("loss_scale"), 1.0);
}

TEST(Fp16, ALossThatIsNotFiniteIsNotTheScales) {
  const TinyRun tiny(Json{{"precision", "fp16"}});
  Trainer trainer = tiny.trainer();
  const auto spoil = [](const Batch& batch, double& loss, const at::Tensor&) {
    if (batch.index == 5) loss = NAN;
  };
  trainer.run({.after_backward = spoil});
  ASSERT_EQ(tiny.events("skip").size(), 1U);
  EXPECT_EQ(tiny.events("skip")[0].at("reason"), "the loss is not finite");
  EXPECT_EQ(tiny.state(40).loss_scale->scale, 65536);
}

TEST(Fp16, TrainsLikeFp32) {
  const TinyRun half(Json{{"precision", "fp16"}});
  const TinyRun full;
  half.trainer().run();
  full.trainer().run();
  EXPECT_NEAR(half.lines(half.run.metrics()).back().at("eval_loss").get<double>(),
              full.lines(full.run.metrics()).back().at("eval_loss").get<double>(), 0.02);
}

// A power of two changes no bit in fp32, however the batch is cut.
TEST(Fp16, TheScaleIsTakenOutOfTheGradientAndTheLoss) {
  testing::TinyModel model;
  Batch batch;
  batch.rows = 4;
  batch.length = testing::kTinyLength;
  batch.inputs = testing::random_ids(batch.rows * batch.length, 1);
  batch.targets = testing::random_ids(batch.rows * batch.length, 2);
  batch.num_targets = batch.rows * batch.length;
  for (const int64_t micro_tokens : {64, 16}) {
    const at::Tensor plain = model.new_gradient();
    const at::Tensor scaled = model.new_gradient();
    const double loss = accumulate_batch(model.llama, batch, micro_tokens, plain);
    EXPECT_EQ(accumulate_batch(model.llama, batch, micro_tokens, scaled, 1024), loss);
    EXPECT_TRUE(at::equal(plain, scaled));
  }
}

}  // namespace
}  // namespace lmtrain
