// Properties of the batches of every valid (batching, cut, schedule, shuffle), over random corpora.
// Those of whole runs are in batch_order_run_test.cpp.
#include "batching/batch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"
#include "batching/batch_order_properties.h"

namespace lmtrain {

namespace {

TEST_P(BatchOrderProperties, EpochsTrainEachTargetExactlyThatOften) {
  for (const uint64_t corpus : {1, 2, 3}) {
    const TokenShard shard = make_shard(random_sizes(corpus, 120, 700));
    for (const double n : {1, 2, 4}) {
      const BatchOrder batches = order(shard, epochs(n));
      Coverage found = coverage(shard);
      for (int64_t k = 0; k < batches.num_batches(); ++k) {
        ASSERT_EQ(found.add(batches.batch(k)), "");
      }
      EXPECT_TRUE(found.is(n)) << "corpus " << corpus;
      if (GetParam().mixture && n == 1) continue;  // half an epoch of one source: as rows fall
      EXPECT_EQ(static_cast<double>(found.total()), n * targets_an_epoch(shard));
      EXPECT_EQ(batches.num_targets(), found.total());
    }
  }
}

TEST_P(BatchOrderProperties, NothingIsTruncated) {
  const TokenShard shard = make_shard(random_sizes(3, 150, 700));
  const BatchOrder batches = order(shard, steps(30));
  double targets = 0;
  for (const LengthSummary& length : batches.lengths()) {
    targets += static_cast<double>(length.targets_per_epoch);
    EXPECT_LE(length.targets_per_epoch, length.positions_per_epoch());
    EXPECT_LE(length.rows_per_epoch, length.sequences_per_epoch + 1);  // shares are rounded
  }
  EXPECT_NEAR(targets, static_cast<double>(batches.targets_given()), GetParam().mixture ? 2 : 0);
  EXPECT_NEAR(targets_an_epoch(shard), static_cast<double>(batches.targets_given()), 0.5);
}

TEST_P(BatchOrderProperties, CoverageNoticesABatchLostOrRepeated) {
  const TokenShard shard = make_shard(random_sizes(4, 120, 700));
  const BatchOrder batches = order(shard, epochs(2));
  for (const bool lost : {true, false}) {
    Coverage found = coverage(shard);
    for (int64_t k = 0; k < batches.num_batches(); ++k) {
      if (k == 5 && lost) continue;
      found.add(batches.batch(k));
      if (k == 5) found.add(batches.batch(k));
    }
    EXPECT_FALSE(found.is(2));
  }
}

TEST_P(BatchOrderProperties, FractionalEpochsAddThatFractionOfTheRows) {
  const TokenShard shard = make_shard(random_sizes(5, 150, 700));
  for (const double n : {0.4, 2.5}) {
    const BatchOrder batches = order(shard, epochs(n));
    const BatchOrder lengths = uncapped(shard, epochs(n));
    Coverage found = coverage(shard);
    std::map<int64_t, int64_t> rows;
    for (int64_t k = 0; k < batches.num_batches(); ++k) {
      const Batch batch = batches.batch(k);
      ASSERT_EQ(found.add(batch), "");
      rows[lengths.batch_length(k)] += rows_drawn(batch, lengths.batch_length(k));
    }
    // A mixture is exact at whole epochs; 2 of them are whole for each source.
    EXPECT_TRUE(GetParam().mixture || found.is(n));
    for (const LengthSummary& length : batches.lengths()) {
      const double expected = n * static_cast<double>(length.rows_per_epoch);
      const double rounded = GetParam().mixture ? 2 + 2 * n : 0.5;  // of each source
      EXPECT_NEAR(static_cast<double>(rows[length.length]), expected, rounded);
    }
  }
}

TEST_P(BatchOrderProperties, OnlyTheLastBatchOfALengthIsShort) {
  const TokenShard shard = make_shard(random_sizes(6, 150, 700));
  const BatchOrder batches = order(shard, epochs(2));
  const BatchOrder lengths = uncapped(shard, epochs(2));
  std::set<int64_t> ended;
  std::map<int64_t, int64_t> count;
  for (int64_t k = 0; k < batches.num_batches(); ++k) {
    const int64_t length = lengths.batch_length(k);
    EXPECT_FALSE(ended.contains(length));
    if (rows_drawn(batches.batch(k), length) < kBatchTokens / length) ended.insert(length);
    ++count[length];
  }
  for (const LengthSummary& length : batches.lengths()) {
    EXPECT_EQ(length.batches, count[length.length]);
  }
}

TEST_P(BatchOrderProperties, PositionsPerStepAreConstant) {
  const TokenShard shard = make_shard(random_sizes(7, 120, 700));
  for (const RunLength& run : {steps(50), tokens(9000), epochs(1.3)}) {
    const BatchOrder batches = order(shard, run);
    const std::vector<int64_t> allowed = batches.batch_lengths();
    for (int64_t k = 0; k < batches.num_batches(); ++k) {
      const Batch batch = batches.batch(k);
      EXPECT_EQ(batch.index, k);
      EXPECT_EQ(batch.rows * batch.length, kBatchTokens);
      EXPECT_EQ(batch.length, batches.batch_length(k));
      EXPECT_EQ(std::count(allowed.begin(), allowed.end(), batch.length), 1) << batch.length;
      EXPECT_GT(batch.num_targets, 0);
    }
  }
}

// A cap divides rows and changes nothing else: the same positions at the same step.
TEST_P(BatchOrderProperties, CapsOnlyDivideRows) {
  const TokenShard shard = make_shard(random_sizes(7, 120, 700));
  const BatchOrder batches = order(shard, steps(60));
  const BatchOrder whole = uncapped(shard, steps(60));
  int64_t longest = 0;
  int64_t num_divided = 0;
  for (int64_t k = 0; k < 60; ++k) {
    const Batch batch = batches.batch(k);
    const Batch expected = whole.batch(k);
    EXPECT_EQ(batch.inputs, expected.inputs);
    EXPECT_EQ(batch.targets, expected.targets);
    EXPECT_LE(batch.length, expected.length);
    num_divided += batch.length < expected.length;
    longest = std::max(longest, batch.length);
    EXPECT_TRUE(!caps() || k > 0 || batch.length == 8);
    EXPECT_TRUE(k < 42 || batch.length == expected.length);  // 70 % of the run
  }
  EXPECT_EQ(longest, 64);
  EXPECT_EQ(num_divided > 0, caps());
}

TEST_P(BatchOrderProperties, AnyBatchCanBeProducedAgain) {
  const TokenShard shard = make_shard(random_sizes(8, 120, 700));
  const BatchOrder one = order(shard, steps(200));
  const BatchOrder other = order(shard, steps(200));
  const auto expect_same = [&](int64_t k) {
    const Batch a = one.batch(k);
    const Batch b = other.batch(k);
    EXPECT_EQ(a.inputs, b.inputs) << k;
    EXPECT_EQ(a.targets, b.targets) << k;
    EXPECT_EQ(a.documents, b.documents) << k;
    EXPECT_EQ(a.segments, b.segments) << k;
    EXPECT_EQ(a.length, b.length) << k;
  };
  // Backwards, far past the plan, and from two threads at once.
  for (const int64_t k : {5000, 199, 200, 17, 0, 5000, 1'000'000'000}) expect_same(k);
  auto ahead = std::async(std::launch::async, [&] {
    std::vector<Batch> found;
    for (int64_t k = 0; k < 100; ++k) found.push_back(one.batch(k));
    return found;
  });
  for (int64_t k = 99; k >= 0; --k) expect_same(k);
  const std::vector<Batch> found = ahead.get();
  for (size_t k = 0; k < found.size(); ++k) {
    const Batch batch = other.batch(static_cast<int64_t>(k));
    EXPECT_EQ(found[k].inputs, batch.inputs) << k;
    EXPECT_EQ(found[k].targets, batch.targets) << k;
  }
}

// The shares of a batch, one after another, are the batch.
TEST_P(BatchOrderProperties, SharesMakeUpTheBatch) {
  const TokenShard shard = make_shard(random_sizes(8, 120, 700));
  const BatchOrder batches = order(shard, steps(60));
  for (int64_t k = 0; k < 60; k += 3) {
    const Batch whole = batches.batch(k);
    EXPECT_EQ(whole.batch_rows, whole.rows);
    for (const int64_t count : {2, 3, 4, 40}) {
      Batch joined;
      for (int64_t rank = 0; rank < count; ++rank) {
        const Batch share = batches.batch(k, {rank, count});
        const RowRange rows = rows_of_part(whole.rows, rank, count);
        ASSERT_EQ(share.rows, rows.end - rows.first);
        ASSERT_EQ(share.first_row, rows.first);
        ASSERT_EQ(share.inputs.size(), static_cast<size_t>(share.rows * share.length));
        ASSERT_EQ(share.num_targets, whole.num_targets);
        ASSERT_EQ(share.batch_rows, whole.rows);
        ASSERT_EQ(share.documents, whole.documents);
        joined.inputs.insert(joined.inputs.end(), share.inputs.begin(), share.inputs.end());
        joined.targets.insert(joined.targets.end(), share.targets.begin(), share.targets.end());
        for (const int32_t segment : share.segments)
          joined.segments.push_back(segment + static_cast<int32_t>(rows.first * share.length));
      }
      ASSERT_EQ(joined.inputs, whole.inputs) << k << " by " << count;
      ASSERT_EQ(joined.targets, whole.targets) << k << " by " << count;
      ASSERT_EQ(joined.segments, whole.segments) << k << " by " << count;
    }
  }
}

TEST_P(BatchOrderProperties, SeedAndFingerprintDecideTheOrder) {
  const TokenShard shard = make_shard(random_sizes(9, 120, 700));
  const auto content = [&](const BatchOrder& batches) {
    std::vector<int32_t> all;
    for (int64_t k = 0; k < 40; ++k) {
      const Batch batch = batches.batch(k);
      all.insert(all.end(), batch.inputs.begin(), batch.inputs.end());
    }
    return all;
  };
  const auto base = content(order(shard, steps(40)));
  EXPECT_EQ(content(order(shard, steps(40), 8)) == base, !GetParam().shuffle);
  const bool keyed_cut =
      GetParam().batching == Batching::kBucket && GetParam().cut == BucketCut::kBalanced;
  EXPECT_EQ(content(order(shard, steps(40), 7, "another")) == base,
            !GetParam().shuffle && !keyed_cut);
}

INSTANTIATE_TEST_SUITE_P(Every, BatchOrderProperties, testing::ValuesIn(valid_settings()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace lmtrain
