// What the last checkpoint of a run knows, also where no update came after it.
#include "training/tiny_run.h"

namespace lmtrain {
namespace {

using testing::Json;
using testing::TinyRun;

RunOutcome train_spoiled(const TinyRun& tiny,
                         const std::function<void(const Batch&, double&, const at::Tensor&)>& spoil,
                         std::optional<int64_t> checkpoint = std::nullopt) {
  Trainer trainer = tiny.trainer(checkpoint);
  return trainer.run({.after_backward = spoil});
}

// No update follows them, so nothing but the checkpoint of the last step can remember them.
TEST(TrainerSave, LastBatchesThatAreSkippedAreNotMetAgain) {
  const TinyRun tiny(Json{{"train", {{"steps", nullptr}, {"epochs", 0.2}}}});
  const int64_t num_batches = tiny.trainer().order().num_batches();
  const auto last_two = [&](const Batch& batch, double& loss, const at::Tensor&) {
    if (batch.index >= num_batches - 2) loss = NAN;
  };
  EXPECT_EQ(train_spoiled(tiny, last_two).exit_code, 0);
  const int64_t step = num_batches - 2;
  EXPECT_EQ(tiny.state(step).batch, num_batches);
  EXPECT_EQ(tiny.state(step).guard.skips_in_a_row, 2);
  EXPECT_EQ(tiny.events("skip").size(), 2U);
  // Not even where status.json is lost, which says that the run is done.
  std::filesystem::remove(tiny.run.status());
  EXPECT_EQ(train_spoiled(tiny, nullptr, step).exit_code, 0);
  EXPECT_EQ(tiny.run.checkpoint_steps().front(), step) << "a skipped batch was trained on";
}

// A checkpoint that is published again at its step stays one that is never removed.
TEST(TrainerSave, ASkippedBatchLeavesAKeptCheckpointKept) {
  const TinyRun tiny(Json{{"train", {{"steps", nullptr}, {"epochs", 0.2}}},
                          {"checkpoint", {{"every", 1}, {"keep_every", 1}}}});
  const int64_t num_batches = tiny.trainer().order().num_batches();
  const auto last = [&](const Batch& batch, double& loss, const at::Tensor&) {
    if (batch.index == num_batches - 1) loss = NAN;
  };
  EXPECT_EQ(train_spoiled(tiny, last).exit_code, 0);
  EXPECT_EQ(tiny.state(num_batches - 1).batch, num_batches);
  EXPECT_TRUE(tiny.state(num_batches - 1).kept);
}

// A run that is made shorter than it is evaluates once more, and a later extension knows it.
TEST(TrainerSave, TheLastEvaluationOfAShortenedRunIsSaved) {
  TinyRun tiny;
  tiny.trainer().run();
  tiny.config.train.steps = 20;
  EXPECT_EQ(tiny.trainer(25).run().exit_code, 0);
  EXPECT_EQ(tiny.state(25).eval_step, 25);
}

// A run that has come to its end goes back to its checkpoint in its metrics too.
TEST(TrainerSave, AShortenedRunThatIsDoneHasTheMetricsOfItsCheckpoint) {
  TinyRun tiny;
  tiny.trainer().run();
  tiny.config.train.steps = 20;
  EXPECT_EQ(tiny.trainer(20).run().exit_code, 0);
  EXPECT_EQ(tiny.lines(tiny.run.metrics()).back().at("step"), 20);
  EXPECT_EQ(tiny.events("end").size(), 2U);
  EXPECT_EQ(tiny.status().at("step"), 20);
}

}  // namespace
}  // namespace lmtrain
