// Caps against their formula, at the first batch, at each boundary, and past the end.
#include "schedule/length_cap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"

namespace lmtrain {
namespace {

using Step = LengthCap::Step;
using Unit = TrainingDuration::Unit;

// A batch trains 1000 tokens; an epoch is 250 batches, the run 1000.
constexpr RunClock kRun{.total = 1000, .tokens_per_step = 1000, .tokens_per_epoch = 250'000};

LengthScheduleConfig schedule(const char* type, TrainingDuration duration = {100, Unit::kPercent}) {
  LengthScheduleConfig config;
  config.type = value_named<LengthScheduleType>(type).value();
  config.duration = duration;
  return config;
}

TEST(LengthCap, OthersCapNothing) {
  for (const char* type : {"constant", "natural", "grow_linear", "grow_p2"}) {
    EXPECT_EQ(LengthCap(schedule(type), 64, 1024, kRun).steps(), (std::vector<Step>{{0, 1024}}));
  }
}

TEST(LengthCap, LinearAndRootFollowTheirFormula) {
  for (const double degree : {1.0, 2.0, 3.5}) {
    LengthScheduleConfig config = schedule(degree == 1 ? "linear" : "root", {800, Unit::kSteps});
    config.root_degree = degree;
    const LengthCap cap(config, 64, 1024, kRun);
    for (int64_t k = 0; k < 1200; ++k) {
      const double progress = std::min(1.0, static_cast<double>(k) / 800);
      const double limit = 64 + 960 * std::pow(progress, 1 / degree) + 1e-9;
      int64_t expected = 64;
      while (static_cast<double>(expected * 2) <= limit) expected *= 2;
      ASSERT_EQ(cap.at(k), expected) << k;
    }
    EXPECT_EQ(cap.at(0), 64);
    EXPECT_EQ(cap.at(799), 512);
    EXPECT_EQ(cap.at(800), 1024);
    EXPECT_EQ(cap.at(int64_t{1} << 60), 1024);
  }
}

TEST(LengthCap, EveryUnitMeansTheSame) {
  const LengthCap steps(schedule("linear", {500, Unit::kSteps}), 64, 1024, kRun);
  for (const TrainingDuration& same :
       {TrainingDuration{500'000, Unit::kTokens}, TrainingDuration{50, Unit::kPercent},
        TrainingDuration{2, Unit::kEpochs}}) {
    EXPECT_EQ(LengthCap(schedule("linear", same), 64, 1024, kRun).steps(), steps.steps());
  }
  EXPECT_THROW(LengthCap(schedule("root", {5, Unit::kSeconds}), 64, 1024, kRun), Error);
  EXPECT_EQ(LengthCap(schedule("root", {0, Unit::kSteps}), 64, 1024, kRun).steps(),
            (std::vector<Step>{{0, 1024}}));
}

TEST(LengthCap, StepsHoldUntilTheirBoundary) {
  LengthScheduleConfig config = schedule("step");
  config.lengths = {64, 300, 128};
  config.boundaries = {{100, Unit::kSteps}, {1, Unit::kEpochs}, {900'500, Unit::kTokens}};
  const LengthCap cap(config, 64, 1024, kRun);
  EXPECT_EQ(cap.steps(), (std::vector<Step>{{0, 64}, {100, 256}, {250, 128}, {901, 1024}}));
  EXPECT_EQ(cap.at(99), 64);
  EXPECT_EQ(cap.at(100), 256);
  EXPECT_EQ(cap.at(900), 128);
  EXPECT_EQ(cap.at(901), 1024);
}

TEST(LengthCap, BoundariesMustIncreaseInThisRun) {
  LengthScheduleConfig config = schedule("step");
  config.lengths = {64, 128};
  config.boundaries = {{1, Unit::kEpochs}, {20, Unit::kPercent}};
  RunClock longer = kRun;
  longer.total = 10'000;
  EXPECT_THROW(LengthCap(config, 64, 1024, kRun), Error);
  EXPECT_NO_THROW(LengthCap(config, 64, 1024, longer));
  config.boundaries = {{0, Unit::kSteps}, {20, Unit::kPercent}};
  EXPECT_THROW(LengthCap(config, 64, 1024, kRun), Error);
}

// Rows are divided evenly: max_length/2^j, whole, at least min_length.
TEST(LengthCap, CapsDivideTheLongestRow) {
  const auto lengths = [](int64_t min_length, int64_t max_length) {
    std::vector<int64_t> found;
    const LengthCap cap(schedule("linear"), min_length, max_length, kRun);
    for (const Step& step : cap.steps()) found.push_back(step.length);
    return found;
  };
  EXPECT_EQ(lengths(64, 1024), (std::vector<int64_t>{64, 128, 256, 512, 1024}));
  EXPECT_EQ(lengths(100, 1000), (std::vector<int64_t>{125, 250, 500, 1000}));
  EXPECT_EQ(lengths(1, 999), (std::vector<int64_t>{999}));
  EXPECT_EQ(lengths(64, 64), (std::vector<int64_t>{64}));
}

}  // namespace
}  // namespace lmtrain
