// Which steps of a run have a checkpoint, and which of these stay.
#include "schedule/save_schedule.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace lmtrain {
namespace {

using Unit = TrainingDuration::Unit;
using Steps = std::vector<int>;

// A run of 60 steps of 100 tokens; an epoch is 1500 tokens.
struct Saves {
  Steps due, kept;
  double estimate = 0;  // of the whole run
};
Saves saves_of(const Config& config) {
  const bool counts_steps = config.train.steps.has_value();
  const RunClock run{.total = counts_steps ? 60.0 : 6000.0,
                     .counts_steps = counts_steps,
                     .tokens_per_step = 100,
                     .tokens_per_epoch = 1500};
  const LrSchedule rates(config.lr_schedule, 1.0, run);
  const SaveSchedule schedule(config, rates);
  const auto at = [&](int step) { return run.after(step, 100.0 * step, 2.0 * step); };
  Saves saves;
  saves.estimate = schedule.estimate(at(0), at(60));
  for (int step = 1; step <= 60; ++step) {
    if (schedule.due(at(step - 1), at(step))) saves.due.push_back(step);
    if (schedule.kept(at(step - 1), at(step))) saves.kept.push_back(step);
  }
  return saves;
}

Config config_with(const TrainingDuration& every, std::optional<TrainingDuration> keep_every) {
  Config config;
  config.train.tokens.reset();
  config.train.steps = 60;
  config.checkpoint.every = every;
  config.checkpoint.keep_every = keep_every;
  return config;
}

TEST(SaveSchedule, WithoutKeepEveryNoneIsKept) {
  const Saves saves = saves_of(config_with({20, Unit::kSteps}, std::nullopt));
  EXPECT_EQ(saves.due, (Steps{20, 40, 60}));
  EXPECT_EQ(saves.kept, Steps{});
}

// Those that are kept are saved, whether or not checkpoint.every falls on them.
TEST(SaveSchedule, KeepEveryInAnyUnit) {
  const Saves steps = saves_of(config_with({20, Unit::kSteps}, TrainingDuration{15, Unit::kSteps}));
  EXPECT_EQ(steps.due, (Steps{15, 20, 30, 40, 45, 60}));
  EXPECT_EQ(steps.kept, (Steps{15, 30, 45, 60}));
  EXPECT_EQ(steps.estimate, 4);
  EXPECT_EQ(saves_of(config_with({0, Unit::kSteps}, TrainingDuration{1, Unit::kEpochs})).due,
            (Steps{15, 30, 45, 60}));
  EXPECT_EQ(saves_of(config_with({0, Unit::kSteps}, TrainingDuration{50, Unit::kPercent})).kept,
            (Steps{30, 60}));
  EXPECT_EQ(saves_of(config_with({0, Unit::kSteps}, TrainingDuration{0, Unit::kSteps})).kept,
            Steps{});
}

TEST(SaveSchedule, TheLastOfThePlateauIsKept) {
  Config config = config_with({25, Unit::kSteps}, std::nullopt);
  config.lr_schedule.type = LrScheduleType::kWsd;  // the last 20 % decay
  const Saves saves = saves_of(config);
  EXPECT_EQ(saves.due, (Steps{25, 48, 50}));
  EXPECT_EQ(saves.kept, Steps{48});
  EXPECT_EQ(saves.estimate, 3);
  config.train.steps.reset();
  config.train.tokens = 6000;
  config.lr_schedule.decay = {1150, Unit::kTokens};  // begins inside step 49
  EXPECT_EQ(saves_of(config).kept, Steps{49});
  config.lr_schedule.type = LrScheduleType::kCosine;
  EXPECT_EQ(saves_of(config).kept, Steps{});
}

}  // namespace
}  // namespace lmtrain
