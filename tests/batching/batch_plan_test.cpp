// Orders of lengths: the weights as published, shares, and counting.
#include "batching/batch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace lmtrain {
namespace {

using Counts = std::vector<int64_t>;

Counts counts_of(const std::vector<uint8_t>& order, size_t num_lengths) {
  Counts counts(num_lengths, 0);
  for (const uint8_t index : order) ++counts[index];
  return counts;
}

TEST(Curriculum, SplitAddsUpByLargestRemainder) {
  EXPECT_EQ(split_in_proportion(10, {1, 1, 1}), (Counts{4, 3, 3}));
  EXPECT_EQ(split_in_proportion(7, {50, 30, 20}), (Counts{4, 2, 1}));
  EXPECT_EQ(split_in_proportion(0, {5, 6}), (Counts{0, 0}));
  EXPECT_EQ(split_in_proportion(1, {1, 2}), (Counts{0, 1}));
  EXPECT_EQ(split_in_proportion(1'000'000'000, {int64_t{1} << 60, int64_t{1} << 60}),
            (Counts{500'000'000, 500'000'000}));
}

TEST(Curriculum, WeightsOfSixLengths) {
  EXPECT_EQ(sub_cycle_weights(Growth::kP2, 6), (std::vector<Counts>{{32, 16, 8, 4, 2, 1},
                                                                    {16, 32, 8, 4, 2, 1},
                                                                    {8, 16, 32, 4, 2, 1},
                                                                    {4, 8, 16, 32, 2, 1},
                                                                    {2, 4, 8, 16, 32, 1},
                                                                    {1, 2, 4, 8, 16, 32}}));
  EXPECT_EQ(sub_cycle_weights(Growth::kLinear, 6), (std::vector<Counts>{{6, 5, 4, 3, 2, 1},
                                                                        {5, 6, 4, 3, 2, 1},
                                                                        {4, 5, 6, 3, 2, 1},
                                                                        {3, 4, 5, 6, 2, 1},
                                                                        {2, 3, 4, 5, 6, 1},
                                                                        {1, 2, 3, 4, 5, 6}}));
  EXPECT_EQ(sub_cycle_weights(Growth::kP2, 1), (std::vector<Counts>{{1}}));
}

TEST(Curriculum, MixKeepsTheShareAtEveryPosition) {
  const Counts counts = {500, 300, 150, 49, 1};
  const auto regular = mix_lengths(counts, std::nullopt);
  EXPECT_EQ(counts_of(regular, counts.size()), counts);
  Counts so_far(counts.size(), 0);
  for (size_t position = 0; position < regular.size(); ++position) {
    ++so_far[regular[position]];
    for (size_t i = 0; i < counts.size(); ++i) {
      const double share =
          static_cast<double>(counts[i]) * static_cast<double>(position + 1) / 1000;
      EXPECT_LT(std::abs(static_cast<double>(so_far[i]) - share), 2.0) << position;
    }
  }
  const auto shuffled = mix_lengths(counts, 1);
  EXPECT_EQ(counts_of(shuffled, counts.size()), counts);
  EXPECT_EQ(mix_lengths(counts, 1), shuffled);
  EXPECT_NE(mix_lengths(counts, 2), shuffled);
}

TEST(Curriculum, GrowFollowsTheWeightsExactly) {
  // 63 batches of each length, one cycle: the counts are the weights.
  const Counts counts(6, 63);
  for (const std::optional<uint64_t> key :
       {std::optional<uint64_t>{}, std::optional<uint64_t>{5}}) {
    const auto order = grow_lengths(counts, Growth::kP2, 1, key);
    ASSERT_EQ(order.size(), 6U * 63);
    const auto weights = sub_cycle_weights(Growth::kP2, 6);
    auto next = order.begin();
    for (size_t sub_cycle = 0; sub_cycle < 6; ++sub_cycle) {
      int64_t size = 0;
      for (size_t i = 0; i < 6; ++i) size += weights[i][sub_cycle];
      const std::vector<uint8_t> slice(next, next + size);
      next += size;
      const Counts found = counts_of(slice, 6);
      for (size_t i = 0; i < 6; ++i) EXPECT_EQ(found[i], weights[i][sub_cycle]);
      EXPECT_EQ(std::is_sorted(slice.begin(), slice.end()), !key);
    }
  }
}

TEST(Curriculum, GrowKeepsCountsOfAnySize) {
  for (const Counts& counts :
       {Counts{1}, Counts{0, 1}, Counts{1, 0, 3}, Counts{10'001, 77, 1, 0}}) {
    for (const int64_t cycles : {1, 4, 1000}) {
      for (const Growth growth : {Growth::kLinear, Growth::kP2}) {
        EXPECT_EQ(counts_of(grow_lengths(counts, growth, cycles, 3), counts.size()), counts);
      }
    }
  }
}

TEST(Curriculum, SequenceCountsWhatCameBefore) {
  const auto order = mix_lengths({400, 300, 70}, 9);
  const LengthSequence sequence(order, 3);
  Counts so_far(3, 0);
  for (int64_t position = 0; position <= sequence.size(); ++position) {
    for (size_t i = 0; i < 3; ++i)
      ASSERT_EQ(sequence.count_before(position, i), so_far[i]) << position;
    if (position < sequence.size()) ++so_far[sequence.at(position)];
  }
}

}  // namespace

// Caps against their formula, at the first batch, at each boundary, and past the end.

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

TEST(LengthCap, StepsToComeMoveWithTheEnd) {
  const LengthCap cap(schedule("linear", {1000, Unit::kSteps}), 64, 1024, kRun);
  EXPECT_EQ(cap.with_left(100, 900, 900).steps(), cap.steps());
  const std::vector<Step> moved = cap.with_left(100, 900, 450).steps();
  ASSERT_EQ(moved.size(), cap.steps().size());
  for (size_t i = 0; i < moved.size(); ++i) {
    const int64_t was = cap.steps()[i].first_batch;
    EXPECT_EQ(moved[i].first_batch, was <= 100 ? was : 100 + (was - 100 + 1) / 2) << i;
    EXPECT_EQ(moved[i].length, cap.steps()[i].length);
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
