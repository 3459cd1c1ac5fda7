// The learning rate against PyTorch's values and, for every shape, at its first, boundary and last
// step.
#include "schedule/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"

namespace lmtrain {
namespace {

constexpr TrainingDuration steps(double value) { return {value, TrainingDuration::Unit::kSteps}; }
constexpr TrainingDuration percent(double value) {
  return {value, TrainingDuration::Unit::kPercent};
}
constexpr TrainingDuration tokens(double value) { return {value, TrainingDuration::Unit::kTokens}; }

// A run that counts steps.
constexpr RunClock run_of(double steps) { return {.total = steps}; }

LrScheduleConfig config(const char* type, TrainingDuration warmup) {
  LrScheduleConfig config;
  config.type = value_named<LrScheduleType>(type).value();
  config.warmup = warmup;
  return config;
}

TEST(LrSchedule, EqualsPyTorchLinearThenCosine) {
  std::ifstream file(LMTRAIN_SOURCE_DIR "/tests/reference/lr/lr.json");
  const auto golden = nlohmann::json::parse(file);
  LrScheduleConfig settings = config("cosine", steps(golden["warmup_steps"]));
  settings.warmup_start = golden["warmup_start"];
  settings.min_ratio = golden["min_ratio"];
  const double peak = golden["peak"];
  const LrSchedule schedule(settings, peak, run_of(golden["total_steps"]));
  ASSERT_EQ(golden["lr"].size(), 100U);
  for (size_t step = 0; step < golden["lr"].size(); ++step) {
    EXPECT_NEAR(schedule.at(static_cast<double>(step)), golden["lr"][step], 1e-14 * peak) << step;
  }
  EXPECT_DOUBLE_EQ(schedule.at(100), 1e-4);
  EXPECT_DOUBLE_EQ(schedule.at(1e9), 1e-4);
}

TEST(LrSchedule, WarmupShapes) {
  LrScheduleConfig settings = config("constant", steps(8));
  settings.warmup_start = 0.2;
  const auto at = [&](const char* shape, double t) {
    settings.warmup_shape = value_named<WarmupShape>(shape).value();
    return LrSchedule(settings, 2.0, run_of(100)).at(t);
  };
  for (const char* shape : {"linear", "sqrt", "cosine"}) {
    EXPECT_DOUBLE_EQ(at(shape, 0), 0.4) << shape;
    EXPECT_LT(at(shape, 7), 2.0) << shape;
    EXPECT_DOUBLE_EQ(at(shape, 8), 2.0) << shape;
    EXPECT_DOUBLE_EQ(at(shape, 99), 2.0) << shape;
    EXPECT_DOUBLE_EQ(at(shape, 1000), 2.0) << shape;
  }
  EXPECT_DOUBLE_EQ(at("linear", 2), 2 * (0.2 + 0.8 * 0.25));
  EXPECT_DOUBLE_EQ(at("sqrt", 2), 2 * (0.2 + 0.8 * 0.5));
  EXPECT_DOUBLE_EQ(at("cosine", 2), 2 * (0.2 + 0.8 * (1 - std::sqrt(0.5)) / 2));
}

TEST(LrSchedule, DecaysToTheFloorOverTheRest) {
  struct Case {
    const char* type;
    double quarter;  // of the way down, at p = 1/4
    double last;     // at p = 89/90
  };
  const double p = 89.0 / 90;
  for (const Case& c :
       {Case{"cosine", (1 + std::sqrt(0.5)) / 2, (1 + std::cos(std::numbers::pi * p)) / 2},
        Case{"linear", 0.75, 1 - p}, Case{"sqrt", std::sqrt(0.75), std::sqrt(1 - p)}}) {
    LrScheduleConfig settings = config(c.type, percent(10));
    settings.min_ratio = 0.1;
    const LrSchedule schedule(settings, 1.0, run_of(100));
    EXPECT_DOUBLE_EQ(schedule.warmup(), 10) << c.type;
    EXPECT_DOUBLE_EQ(schedule.decay_begin(), 10) << c.type;
    EXPECT_DOUBLE_EQ(schedule.at(10), 1.0) << c.type;
    EXPECT_NEAR(schedule.at(32.5), 0.1 + 0.9 * c.quarter, 1e-15) << c.type;
    EXPECT_NEAR(schedule.at(99), 0.1 + 0.9 * c.last, 1e-15) << c.type;
    EXPECT_DOUBLE_EQ(schedule.at(100), 0.1) << c.type;
    EXPECT_DOUBLE_EQ(schedule.at(250), 0.1) << c.type;
  }
}

TEST(LrSchedule, WsdHoldsThenDecays) {
  struct Case {
    const char* shape;
    double quarter;
  };
  for (const Case& c : {Case{"linear", 0.75}, Case{"sqrt", std::sqrt(0.75)},
                        Case{"one_minus_sqrt", 0.5}, Case{"cosine", (1 + std::sqrt(0.5)) / 2}}) {
    LrScheduleConfig settings = config("wsd", steps(10));
    settings.decay = percent(20);
    settings.decay_shape = value_named<DecayShape>(c.shape).value();
    settings.min_ratio = 0.5;
    const LrSchedule schedule(settings, 4.0, run_of(100));
    EXPECT_DOUBLE_EQ(schedule.decay_begin(), 80);
    EXPECT_DOUBLE_EQ(schedule.at(10), 4.0) << c.shape;
    EXPECT_DOUBLE_EQ(schedule.at(79), 4.0) << c.shape;
    EXPECT_DOUBLE_EQ(schedule.at(80), 4.0) << c.shape;
    EXPECT_LT(schedule.at(81), 4.0) << c.shape;
    EXPECT_NEAR(schedule.at(85), 2 + 2 * c.quarter, 1e-14) << c.shape;
    EXPECT_GT(schedule.at(99), 2.0) << c.shape;
    EXPECT_DOUBLE_EQ(schedule.at(100), 2.0) << c.shape;
    EXPECT_DOUBLE_EQ(schedule.at(101), 2.0) << c.shape;
  }
}

TEST(LrSchedule, ConvertsDurationsToTheUnitOfTheRun) {
  // 1000 tokens a step.
  const auto warmup = [](TrainingDuration duration, double total, bool counts_steps) {
    const RunClock run{.total = total, .counts_steps = counts_steps, .tokens_per_step = 1000};
    return LrSchedule(config("cosine", duration), 1.0, run).warmup();
  };
  EXPECT_DOUBLE_EQ(warmup(steps(5), 100'000, false), 5000);
  EXPECT_DOUBLE_EQ(warmup(tokens(5000), 100'000, false), 5000);
  EXPECT_DOUBLE_EQ(warmup(percent(2), 100'000, false), 2000);
  EXPECT_DOUBLE_EQ(warmup(steps(5), 100, true), 5);
  EXPECT_DOUBLE_EQ(warmup(tokens(5000), 100, true), 5);
  EXPECT_DOUBLE_EQ(warmup(percent(2), 100, true), 2);
  EXPECT_THROW(warmup({90, TrainingDuration::Unit::kSeconds}, 100, true), Error);
}

TEST(LrSchedule, TokensAndStepsGiveTheSameCurve) {
  const LrSchedule by_steps(config("cosine", steps(10)), 1.0, run_of(100));
  const RunClock in_tokens{.total = 51'200, .counts_steps = false, .tokens_per_step = 512};
  const LrSchedule by_tokens(config("cosine", steps(10)), 1.0, in_tokens);
  for (double step = 0; step <= 110; ++step) {
    EXPECT_NEAR(by_steps.at(step), by_tokens.at(step * 512), 1e-14) << step;
  }
}

TEST(LrSchedule, OddDurations) {
  // No warm-up: the first step has the peak.
  EXPECT_DOUBLE_EQ(LrSchedule(config("linear", steps(0)), 1.0, run_of(10)).at(0), 1.0);
  // A warm-up that fills the run ends at the peak, one that is longer on its way there.
  LrScheduleConfig settings = config("cosine", steps(10));
  settings.warmup_start = 0;
  EXPECT_DOUBLE_EQ(LrSchedule(settings, 1.0, run_of(10)).at(10), 1.0);
  EXPECT_DOUBLE_EQ(LrSchedule(settings, 1.0, run_of(10)).at(99), 1.0);
  EXPECT_DOUBLE_EQ(LrSchedule(settings, 1.0, run_of(5)).at(5), 0.5);
  EXPECT_DOUBLE_EQ(LrSchedule(settings, 1.0, run_of(5)).at(99), 0.5);
  // A decay longer than what is left begins after the warm-up; one of nothing never begins.
  settings = config("wsd", steps(10));
  settings.decay = percent(95);
  EXPECT_DOUBLE_EQ(LrSchedule(settings, 1.0, run_of(100)).decay_begin(), 10);
  settings.decay = percent(0);
  EXPECT_DOUBLE_EQ(LrSchedule(settings, 1.0, run_of(100)).at(100), 1.0);
}

TEST(LinearWarmup, GrowsAlongALineAndThenHolds) {
  EXPECT_EQ(linear_warmup(0, 8, 0, 100), 0);
  EXPECT_DOUBLE_EQ(linear_warmup(0, 8, 1, 100), 0.08);
  EXPECT_DOUBLE_EQ(linear_warmup(2, 8, 50, 100), 5);
  EXPECT_EQ(linear_warmup(0, 8, 100, 100), 8);
  EXPECT_EQ(linear_warmup(0, 8, 1e9, 100), 8);
}

TEST(LinearWarmup, OverNothingIsThereAtOnce) {
  EXPECT_EQ(linear_warmup(0, 8, 0, 0), 8);
  EXPECT_EQ(half_life_warmup(0.9, 0.9999, 1, 0), 0.9999);
}

// Half of the way in half-life, ln 2 / -ln beta: 6.58 and 6931 steps are 3469 steps in the middle.
TEST(HalfLifeWarmup, GrowsByHalfLife) {
  // The small number in the formula shows.
  EXPECT_NEAR(half_life_warmup(0.9, 0.9999, 0, 100), 0.9, 2e-8);
  EXPECT_NEAR(half_life_warmup(0.9, 0.9999, 50, 100), 0.99980022, 1e-8);
  EXPECT_NEAR(half_life_warmup(0.9, 0.9999, 1, 100), 0.990901, 1e-6);
  EXPECT_EQ(half_life_warmup(0.9, 0.9999, 100, 100), 0.9999);
  // From no memory at all.
  EXPECT_NEAR(half_life_warmup(0, 0.9, 0, 100), 0, 2e-8);
}

}  // namespace

}  // namespace lmtrain
