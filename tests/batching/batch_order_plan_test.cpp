// The plan of a run: curricula and their cycles, totals that agree between ways of batching, what
// is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/stop.h"
#include "batching/batch_order.h"
#include "batching/test_corpus.h"

namespace lmtrain {
namespace {

SequenceConfig sequence(const char* batching, const char* schedule, int64_t cycles = 4) {
  SequenceConfig config;
  config.max_length = 64;
  config.min_length = 8;
  config.batching = value_named<Batching>(batching).value();
  config.schedule.type = value_named<LengthScheduleType>(schedule).value();
  config.schedule.cycles = cycles;
  return config;
}

BatchOrder order_of(const TokenShard& shard, const SequenceConfig& sequence, const RunLength& run,
                    int64_t batch_tokens = 256) {
  return BatchOrder({.shard = shard,
                     .fingerprint = "corpus",
                     .sequence = sequence,
                     .data_seed = 3,
                     .batch_tokens = batch_tokens,
                     .run = run});
}

// How much longer the rows of a cycle's second half are than those of its first, the least over all
// cycles.
double least_growth(const SequenceConfig& config, int64_t num_batches) {
  const TokenShard shard = make_shard(random_sizes(1, 400, 900));
  const BatchOrder order = order_of(shard, config, {.steps = num_batches});
  const auto mean = [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t k = begin; k < end; ++k) sum += static_cast<double>(order.batch_length(k));
    return sum / static_cast<double>(end - begin);
  };
  double least = 1e9;
  const int64_t cycle = num_batches / config.schedule.cycles;
  for (int64_t begin = 0; begin < num_batches; begin += cycle) {
    least =
        std::min(least, mean(begin + cycle / 2, begin + cycle) - mean(begin, begin + cycle / 2));
  }
  return least;
}

// Planning millions of documents or batches takes long, so a signal and a limit of time end it.
TEST(BatchOrderPlan, APollEndsThePlanning) {
  int polls = 0;
  const auto plan = [&](const TokenShard& shard, const SequenceConfig& config, bool shuffle,
                        int64_t steps, int most_polls) {
    polls = 0;
    DataConfig data;
    data.shuffle = shuffle;
    const BatchOrder order({.shard = shard,
                            .fingerprint = "corpus",
                            .sequence = config,
                            .data = data,
                            .batch_tokens = 256,
                            .run = {.steps = steps},
                            .poll = [&] {
                              if (++polls > most_polls) throw StopRequested{SIGTERM};
                            }});
  };
  const TokenShard shard = make_shard(random_sizes(1, 400, 900));
  for (const char* schedule : {"grow_p2", "natural"}) {
    for (const bool shuffle : {true, false}) {
      const SequenceConfig config = sequence("bucket", schedule);
      plan(shard, config, shuffle, 1000, 0);
      EXPECT_EQ(polls, 0) << "a short run asks nothing";
      EXPECT_THROW(plan(shard, config, shuffle, 3'000'000, 1), StopRequested) << schedule;
    }
  }
  const TokenShard many = make_shard(std::vector<int64_t>(1'100'000, 2));
  for (const char* batching : {"bucket", "concat"})
    EXPECT_THROW(plan(many, sequence(batching, "constant"), true, 10, 0), StopRequested)
        << batching;
}

TEST(BatchOrderPlan, CyclesGrow) {
  for (const char* batching : {"bucket", "pad"}) {
    const double natural = least_growth(sequence(batching, "natural"), 1200);
    const double linear = least_growth(sequence(batching, "grow_linear"), 1200);
    const double p2 = least_growth(sequence(batching, "grow_p2"), 1200);
    EXPECT_LT(natural, 1) << batching;
    EXPECT_GT(linear, 2) << batching;
    EXPECT_GT(p2, 1.5 * linear) << batching;
  }
}

TEST(BatchOrderPlan, EveryCycleHasItsShareOfEveryLength) {
  const TokenShard shard = make_shard(random_sizes(2, 400, 900));
  const BatchOrder order = order_of(shard, sequence("bucket", "grow_p2"), {.steps = 1001});
  for (const LengthSummary& length : order.lengths()) {
    for (int64_t cycle = 0; cycle < 4; ++cycle) {
      int64_t count = 0;
      for (int64_t k = 1001 * cycle / 4; k < 1001 * (cycle + 1) / 4; ++k) {
        count += order.batch_length(k) == length.length;
      }
      EXPECT_NEAR(static_cast<double>(count), static_cast<double>(length.batches) / 4, 3);
    }
  }
}

TEST(BatchOrderPlan, BalancedCutSpreadsTokensOverTheLengths) {
  const TokenShard shard = make_shard(std::vector<int64_t>(40, 20'000));
  SequenceConfig config = sequence("bucket", "natural");
  const BatchOrder balanced = order_of(shard, config, {.epochs = 1});
  ASSERT_EQ(balanced.lengths().size(), 4U);
  for (const LengthSummary& length : balanced.lengths()) {
    EXPECT_NEAR(static_cast<double>(length.targets_per_epoch), 40 * 19'999 / 4.0, 6000);
  }
  config.cut = BucketCut::kLongest;
  const BatchOrder longest = order_of(shard, config, {.epochs = 1});
  EXPECT_GT(longest.lengths().back().targets_per_epoch, 40 * 19'999 * 0.99);
}

TEST(BatchOrderPlan, EveryBatchingTrainsTheSameTargets) {
  const TokenShard shard = make_shard(random_sizes(3, 300, 900));
  const auto targets = [&](const char* batching, const char* schedule) {
    return order_of(shard, sequence(batching, schedule), {.epochs = 1}).num_targets();
  };
  EXPECT_EQ(targets("bucket", "grow_p2"), targets("concat", "constant"));
  EXPECT_EQ(targets("pad", "natural"), targets("concat", "constant"));
  EXPECT_EQ(targets("pack", "linear"), targets("concat", "constant"));
}

TEST(BatchOrderPlan, AccountsOfAnEpochAddUp) {
  const TokenShard shard = make_shard(random_sizes(2, 400, 900));
  for (const char* batching : {"bucket", "pad", "pack", "concat"}) {
    const BatchOrder order = order_of(shard, sequence(batching, "constant"), {.epochs = 2});
    int64_t targets = 0;
    for (const LengthSummary& length : order.lengths()) targets += length.targets_per_epoch;
    EXPECT_EQ(targets, order.targets_given());
    ASSERT_EQ(order.sources().size(), 1U);
    EXPECT_EQ(order.sources()[0].targets, targets);
    EXPECT_DOUBLE_EQ(order.sources()[0].epochs, 2);
  }
}

TEST(BatchOrderPlan, CyclesAddUpToTheRun) {
  const TokenShard shard = make_shard(random_sizes(2, 400, 900));
  const BatchOrder order = order_of(shard, sequence("bucket", "grow_p2", 3), {.steps = 1001});
  const std::vector<CycleSummary> cycles = order.cycles();
  ASSERT_EQ(cycles.size(), 3U);
  for (size_t i = 0; i < cycles.size(); ++i) {
    const int64_t end = i + 1 < cycles.size() ? cycles[i + 1].first_batch : order.num_batches();
    for (size_t length = 0; length < order.lengths().size(); ++length) {
      int64_t count = 0;
      for (int64_t k = cycles[i].first_batch; k < end; ++k) {
        count += order.batch_length(k) == order.lengths()[length].length;
      }
      EXPECT_EQ(cycles[i].batches[length], count);
    }
  }
}

TEST(BatchOrderPlan, ConcatTakesAnyLength) {
  const TokenShard shard = make_shard(random_sizes(4, 100, 300));
  SequenceConfig config = sequence("concat", "constant");
  config.max_length = 50;
  const BatchOrder order = order_of(shard, config, {.epochs = 1}, 200);
  Coverage coverage(shard, one_source(), /*apart=*/false);
  for (int64_t k = 0; k < order.num_batches(); ++k) ASSERT_EQ(coverage.add(order.batch(k)), "");
  EXPECT_TRUE(coverage.is(1));
}

TEST(BatchOrderPlan, PackTakesAnyLengthAndHalvesItToACap) {
  const TokenShard shard = make_shard(random_sizes(4, 100, 300));
  SequenceConfig config = sequence("pack", "linear");
  config.max_length = 52;
  config.min_length = 7;
  const BatchOrder order = order_of(shard, config, {.epochs = 1}, 208);
  EXPECT_EQ(order.batch_lengths(), (std::vector<int64_t>{13, 26, 52}));
  Coverage coverage(shard, one_source(), /*apart=*/true);
  for (int64_t k = 0; k < order.num_batches(); ++k) ASSERT_EQ(coverage.add(order.batch(k)), "");
  EXPECT_TRUE(coverage.is(1));
}

TEST(BatchOrderPlan, PackAndTailsLeaveLittlePadding) {
  const TokenShard shard = make_shard(random_sizes(5, 4000, 900));
  const auto padding = [&](const char* batching, const char* schedule) {
    const BatchOrder order = order_of(shard, sequence(batching, schedule), {.epochs = 1});
    double positions = 0;
    for (const LengthSummary& l : order.lengths()) {
      positions += static_cast<double>(l.positions_per_epoch());
    }
    return 1 - static_cast<double>(order.targets_given()) / positions;
  };
  EXPECT_LT(padding("pack", "constant"), 0.001);
  EXPECT_LT(padding("bucket", "natural"), 0.001);
  EXPECT_GT(padding("pad", "natural"), 0.05);
}

TEST(BatchOrderPlan, SegmentsAreWhatKeepsPackedSequencesApart) {
  const TokenShard shard = make_shard({6, 4, 3, 5});
  SequenceConfig config = sequence("pack", "constant");
  config.max_length = 16;
  const BatchOrder order = order_of(shard, config, {.epochs = 1}, 16);
  ASSERT_EQ(order.num_batches(), 1);
  Batch batch = order.batch(0);
  EXPECT_EQ(batch.segments, (std::vector<int32_t>{0, 5, 8, 10}));
  EXPECT_EQ(Coverage(shard, one_source(), true).add(batch), "");
  for (const auto& damaged : {std::vector<int32_t>{}, {0, 5, 8}, {0, 5, 9, 10}, {5, 8, 10}}) {
    batch.segments = damaged;
    EXPECT_NE(Coverage(shard, one_source(), true).add(batch), "");
  }
}

ErrorKind kind_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kInternal;
}

TEST(BatchOrderPlan, RefusesWhatCannotBe) {
  const TokenShard shard = make_shard({20, 30});
  const auto kind = [&](const SequenceConfig& config, int64_t batch_tokens, const RunLength& run) {
    return kind_of([&] { order_of(shard, config, run, batch_tokens); });
  };
  SequenceConfig crossing = sequence("bucket", "step");
  crossing.schedule.lengths = {8, 16};
  crossing.schedule.boundaries = {{50, TrainingDuration::Unit::kPercent},
                                  {4, TrainingDuration::Unit::kSteps}};
  EXPECT_EQ(kind(crossing, 64, {.steps = 100}), ErrorKind::kConfig);

  const SequenceConfig good = sequence("bucket", "grow_p2");
  EXPECT_EQ(kind(good, 64, {}), ErrorKind::kConfig);
  EXPECT_EQ(kind(good, 64, {.steps = 1, .tokens = 1}), ErrorKind::kConfig);
  EXPECT_EQ(kind(good, 64, {.epochs = 1e-6}), ErrorKind::kConfig);
  EXPECT_EQ(kind(good, 64, {.epochs = 1e18}), ErrorKind::kConfig);
  EXPECT_EQ(kind(good, 64, {.epochs = 1e300}), ErrorKind::kConfig);
  EXPECT_EQ(kind(good, 64, {.steps = int64_t{1} << 62}), ErrorKind::kConfig);
  EXPECT_EQ(kind(good, 64, {.tokens = int64_t{1} << 62}), ErrorKind::kConfig);
}

TEST(BatchOrderPlan, RefusesACorpusWithoutTargets) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {0}, {1, 1, 0, 1}}) {
    const TokenShard shard = make_shard(sizes);
    for (const char* batching : {"bucket", "pad", "pack", "concat"}) {
      EXPECT_EQ(kind_of([&] { order_of(shard, sequence(batching, "constant"), {.steps = 1}, 64); }),
                ErrorKind::kData);
    }
  }
}

TEST(BatchOrderPlan, AnEpochsRunHasAnEnd) {
  const TokenShard shard = make_shard({20, 30});
  const BatchOrder order = order_of(shard, sequence("bucket", "grow_p2"), {.epochs = 2}, 64);
  EXPECT_EQ(kind_of([&] { order.batch(order.num_batches()); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { order.batch_length(order.num_batches()); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { order.batch(-1); }), ErrorKind::kInternal);
}

}  // namespace
}  // namespace lmtrain
