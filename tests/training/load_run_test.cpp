// What a run goes on from. That the whole run then ends with the same bits is tested by
// trainer_test.cpp and trainer_guard_test.cpp.
#include "training/load_run.h"

#include "training/tiny_run.h"

namespace lmtrain {
namespace {

using testing::TinyRun;

TrainingState state_after(int64_t step, int64_t tokens) {
  TrainingState state;
  state.step = step;
  state.batch = step + 2;  // two were skipped
  state.tokens = tokens;
  state.planned = {.steps = 100, .tokens = 0, .epochs = 0};
  state.total = state.planned;
  state.micro.micro_tokens = 1024;
  return state;
}

Config config_of_steps(int64_t steps) {
  Config config;
  config.train.steps = steps;
  config.batch.micro_tokens = 1024;
  config.precision = PrecisionSetting::kFp32;
  return config;
}

TEST(AdaptState, TheSameConfigChangesNothing) {
  TrainingState state = state_after(40, 5000);
  state.micro.rows = {{64, 2}};
  const std::string before = state_to_text(state);
  adapt_state(state, config_of_steps(100));
  EXPECT_EQ(state_to_text(state), before);
}

TEST(AdaptState, AnotherLengthIsAReplanOfWhatIsLeft) {
  TrainingState state = state_after(40, 5000);
  adapt_state(state, config_of_steps(150));
  ASSERT_EQ(state.replans.size(), 1U);
  EXPECT_EQ(state.replans[0].first_batch, 42);
  EXPECT_EQ(state.replans[0].left.steps, 110);
  EXPECT_EQ(state.total.steps, 150);
  EXPECT_EQ(state.planned.steps, 100) << "as it began";

  Config tokens = config_of_steps(0);
  tokens.train.steps.reset();
  tokens.train.tokens = 8000;
  adapt_state(state, tokens);
  ASSERT_EQ(state.replans.size(), 2U);
  EXPECT_EQ(state.replans[1].left.tokens, 3000);
  EXPECT_EQ(state.replans[1].left.steps, 0);

  // A run that is over already has one step to plan.
  TrainingState past = state_after(40, 5000);
  adapt_state(past, config_of_steps(30));
  EXPECT_EQ(past.replans.at(0).left.steps, 1);
}

TEST(AdaptState, AListedChangeIsNoOtherLength) {
  Config config = config_of_steps(0);
  config.train.steps.reset();
  config.train.tokens = 9000;
  config.train.planned_tokens = {8000};
  config.train.replanned_at = {60};
  TrainingState state = state_after(40, 5000);
  state.planned = state.total = run_length(config.train, 0);
  adapt_state(state, config);
  EXPECT_TRUE(state.replans.empty()) << "before the change";

  state.guard.skipped_batches = {12, 53};
  const RunClock now{.total = 8000, .counts_steps = false, .tokens = 5000};
  replan_at_pace(state, now, 9000);
  EXPECT_EQ(count_paced_replans(state), 1U);
  EXPECT_EQ(state.replans.at(0).left.tokens, 4000);
  EXPECT_EQ(state.replans.at(0).pace, (Pace{5000, 5000, 9000}));
  EXPECT_EQ(state.guard.skipped_batches, (std::vector<int64_t>{12, 53})) << "the same batches";
  adapt_state(state, config);
  EXPECT_EQ(state.replans.size(), 1U) << "after the change";

  // A person who gives another length has no history of lengths (config/parse.cpp).
  config.train.tokens = 12'000;
  config.train.planned_tokens.clear();
  config.train.replanned_at.clear();
  adapt_state(state, config);
  ASSERT_EQ(state.replans.size(), 2U);
  EXPECT_FALSE(state.replans[1].pace);
  EXPECT_EQ(state.replans[1].left.tokens, 7000);
}

// The numbers of batches to come are those of others then; the guard meets a bad one again.
TEST(AdaptState, AnotherLengthForgetsWhichBatchesToComeAreLeftOut) {
  TrainingState state = state_after(40, 5000);
  state.guard.skipped_batches = {12, 41, 42, 53};
  TrainingState same = state;
  adapt_state(same, config_of_steps(100));
  EXPECT_EQ(same.guard.skipped_batches, (std::vector<int64_t>{12, 41, 42, 53}));
  adapt_state(state, config_of_steps(150));
  EXPECT_EQ(state.guard.skipped_batches, (std::vector<int64_t>{12, 41}));
}

TEST(AdaptState, MicroBatchesAskedForAnewAreTriedAnew) {
  TrainingState state = state_after(40, 5000);
  state.micro.rows = {{64, 2}};
  Config config = config_of_steps(100);
  config.batch.micro_tokens = 2048;
  adapt_state(state, config);
  EXPECT_EQ(state.micro, MicroBatchLimits());
}

TEST(AdaptState, ALossScaleBelongsToFp16) {
  TrainingState state = state_after(40, 5000);
  Config config = config_of_steps(100);
  config.precision = PrecisionSetting::kFp16;
  adapt_state(state, config);
  EXPECT_EQ(state.loss_scale, LossScale());
  state.loss_scale->scale = 8;
  adapt_state(state, config);
  EXPECT_EQ(state.loss_scale->scale, 8);
  config.precision = PrecisionSetting::kFp32;
  adapt_state(state, config);
  EXPECT_FALSE(state.loss_scale);
}

TEST(KeepAfterRollback, CountsHowOftenTheRunGoesBackToTheSameStep) {
  const auto gone_back = [](const TrainingState& left, int64_t to, int64_t batch) {
    TrainingState loaded = state_after(to, 100 * to);
    keep_after_rollback(loaded, left, batch);
    return loaded;
  };
  TrainingState state = gone_back(state_after(37, 3700), 30, 39);
  EXPECT_EQ(state.guard.skipped_batches, (std::vector<int64_t>{39}));
  EXPECT_EQ(state.guard.rollback_step, 30);
  EXPECT_EQ(state.guard.rollbacks_in_a_row, 1);
  state = gone_back(state, 30, 45);
  EXPECT_EQ(state.guard.skipped_batches, (std::vector<int64_t>{39, 45}));
  EXPECT_EQ(state.guard.rollbacks_in_a_row, 2);
  state = gone_back(state, 35, 50);
  EXPECT_EQ(state.guard.rollback_step, 35);
  EXPECT_EQ(state.guard.rollbacks_in_a_row, 1);
}

// Step 0 counts too: the first rollback to it is not a second one.
TEST(KeepAfterRollback, TheFirstToTheBeginningIsOne) {
  TrainingState loaded = state_after(0, 0);
  keep_after_rollback(loaded, state_after(3, 300), 3);
  EXPECT_EQ(loaded.guard.rollbacks_in_a_row, 1);
}

TEST(KeepAfterRollback, TakesWindowsFromTheCheckpointAndLimitsFromBefore) {
  TrainingState left = state_after(37, 3700);
  left.guard.windows[64] = {{9.5}, {9.5}};
  left.guard.skips_in_a_row = 3;
  left.micro.rows = {{64, 1}};
  left.loss_scale = LossScale{8, 0};
  TrainingState loaded = state_after(30, 3000);
  loaded.guard.windows[64] = {{4.5}, {0.5}};
  loaded.guard.skips_in_a_row = 1;
  loaded.loss_scale = LossScale{16, 5};
  keep_after_rollback(loaded, left, 39);
  EXPECT_EQ(loaded.guard.windows.at(64), (GuardWindow{{4.5}, {0.5}}));
  EXPECT_EQ(loaded.guard.skips_in_a_row, 1);
  EXPECT_EQ(loaded.micro.rows, left.micro.rows);
  EXPECT_EQ(loaded.loss_scale, (LossScale{16, 5}));
  EXPECT_EQ(loaded.step, 30);
}

TEST(LoadRun, ABeginningIsThatOfTheSeedAndACheckpointThatOfItsStep) {
  const TinyRun tiny;
  OptimizerShards whole(only_process(), tiny.config);
  Engine begun(tiny.config);
  const TrainingState beginning =
      load_run(tiny.config, tiny.data, tiny.run, std::nullopt, begun, only_process(), whole);
  EXPECT_EQ(beginning.seed, tiny.config.seed);
  EXPECT_EQ(beginning.step, 0);
  EXPECT_EQ(beginning.fingerprint, tiny.data.fingerprint);
  EXPECT_EQ(beginning.total.steps, 40);
  EXPECT_TRUE(beginning.replans.empty());
  EXPECT_EQ(newest_checkpoint(tiny.run, only_process()), std::nullopt);

  tiny.trainer().run();
  EXPECT_EQ(newest_checkpoint(tiny.run, only_process()), 40);
  Engine engine(tiny.config);
  const TrainingState state =
      load_run(tiny.config, tiny.data, tiny.run, 25, engine, only_process(), whole);
  EXPECT_EQ(state.step, 25);
  EXPECT_EQ(state_to_text(state), state_to_text(tiny.state(25)));
  EXPECT_FALSE(engine.parameters().master().equal(begun.parameters().master()));
  // The order belongs to the state.
  const TokenShard shard(tiny.data.train_shard, /*verify_tokens=*/false);
  const BatchOrderSpec spec = order_spec(tiny.config, tiny.data, shard, state);
  EXPECT_EQ(spec.run.steps, 40);
  EXPECT_EQ(BatchOrder(spec).num_batches(), 40);
}

}  // namespace
}  // namespace lmtrain
