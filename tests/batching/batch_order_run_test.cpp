// Properties of whole runs: streams, epochs, lengths and replans, for every valid setting.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "batching/batch_order_properties.h"

namespace lmtrain {
namespace {

// Each length's rows of epoch e are all drawn before one of epoch e + 1, in full batches that
// straddle the two. A mixture keeps to that epoch by epoch of the whole.
TEST_P(BatchOrderProperties, StreamsRunEpochAfterEpoch) {
  const TokenShard shard = make_shard(random_sizes(11, 100, 500));
  const Mixture sources = mixture(shard);
  const BatchOrder batches = order(shard, steps(400));
  const BatchOrder lengths = uncapped(shard, steps(400));
  std::map<int64_t, std::set<int64_t>> offsets;  // of targets, by length
  std::map<int64_t, int64_t> rows;
  Coverage found = coverage(shard);
  bool straddled = false;
  for (int64_t k = 0; k < batches.num_batches(); ++k) {
    const Batch batch = batches.batch(k);
    const int64_t length = lengths.batch_length(k);
    ASSERT_EQ(found.add(batch), "");
    EXPECT_EQ(rows_drawn(batch, length), kBatchTokens / length);
    rows[length] += kBatchTokens / length;
    for (const int32_t target : batch.targets) {
      if (target != kNoTarget) offsets[length].insert(target - 1);
    }
    if (k % 67 != 0) continue;
    for (const LengthSummary& summary : batches.lengths()) {
      const double whole =
          static_cast<double>(rows[summary.length]) / static_cast<double>(summary.rows_per_epoch);
      straddled |= whole > 1 && whole != std::floor(whole);
      const double slack = sources.runs.empty() ? 0 : 0.05 * whole + 0.05;  // rows are rounded
      for (const int64_t offset : offsets[summary.length]) {
        const auto times = static_cast<double>(found.count(offset));
        const double weight =
            sources.weight_of(found.document_of(static_cast<int32_t>(offset) + 1));
        EXPECT_GE(times, std::floor(std::floor(std::max(0.0, whole - slack)) * weight));
        EXPECT_LE(times, std::ceil(std::ceil(whole + slack) * weight));
      }
    }
  }
  EXPECT_TRUE(straddled);
}

TEST_P(BatchOrderProperties, EachEpochHasItsOwnOrder) {
  if (GetParam().mixture) return;  // tests/batching/row_stream_test.cpp
  const TokenShard shard = make_shard(random_sizes(11, 100, 500));
  const BatchOrder batches = uncapped(shard, steps(400));
  std::map<int64_t, std::vector<int32_t>> stream;  // by length: the first input of each row
  for (int64_t k = 0; k < batches.num_batches(); ++k) {
    const Batch batch = batches.batch(k);
    for (int64_t row = 0; row < batch.rows; ++row) {
      stream[batch.length].push_back(batch.inputs[static_cast<size_t>(row * batch.length)]);
    }
  }
  for (const LengthSummary& length : batches.lengths()) {
    const auto& rows = stream[length.length];
    if (length.rows_per_epoch < 20 ||
        static_cast<int64_t>(rows.size()) < 2 * length.rows_per_epoch) {
      continue;
    }
    const auto second = rows.begin() + length.rows_per_epoch;
    EXPECT_TRUE(GetParam().shuffle || std::is_sorted(rows.begin(), second));
    EXPECT_EQ(std::equal(rows.begin(), second, second), !GetParam().shuffle) << length.length;
  }
}

TEST_P(BatchOrderProperties, LengthsShareTheRunInProportion) {
  const TokenShard shard = make_shard(random_sizes(11, 200, 700));
  const double rounded = GetParam().mixture ? 1 : 0;
  const auto expect_shares = [](const BatchOrder& batches, std::map<int64_t, int64_t> count,
                                double total, double slack) {
    double positions = 0;
    for (const LengthSummary& l : batches.lengths()) {
      positions += static_cast<double>(l.rows_per_epoch * l.length);
    }
    for (const LengthSummary& l : batches.lengths()) {
      const double share = static_cast<double>(l.rows_per_epoch * l.length) / positions;
      EXPECT_NEAR(static_cast<double>(count[l.length]), share * total, slack) << l.length;
    }
  };
  for (const int64_t n : {1, 7, 100, 333}) {
    const BatchOrder batches = order(shard, steps(n));
    ASSERT_EQ(batches.num_batches(), n);
    std::map<int64_t, int64_t> count;
    const BatchOrder lengths = uncapped(shard, steps(n));
    for (int64_t k = 0; k < n; ++k) ++count[lengths.batch_length(k)];
    expect_shares(batches, count, static_cast<double>(n), 1.0 + rounded);
    for (const LengthSummary& l : batches.lengths()) EXPECT_EQ(l.batches, count[l.length]);
    // Past the plan in proportion without end.
    std::map<int64_t, int64_t> past;
    for (int64_t k = n; k < n + 3000; ++k) ++past[batches.batch_length(k)];
    expect_shares(batches, past, 3000, 100.0);
  }
}

TEST_P(BatchOrderProperties, TokensRunsAreAsLongAsTheyNeedToBe) {
  const TokenShard shard = make_shard(random_sizes(12, 300, 700));
  for (const int64_t wanted : {2000, 50'000}) {
    const BatchOrder batches = order(shard, tokens(wanted));
    int64_t trained = 0;
    int64_t k = 0;
    while (trained < wanted) trained += batches.batch(k++).num_targets;
    const double expected = static_cast<double>(batches.num_batches());
    EXPECT_NEAR(static_cast<double>(k), expected, 2 + 0.03 * expected);
    EXPECT_NEAR(static_cast<double>(batches.num_targets()), static_cast<double>(wanted),
                2.0 * kBatchTokens + 0.03 * static_cast<double>(wanted));
  }
}

TEST_P(BatchOrderProperties, TinyCorpora) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2}, {0, 1, 2, 1}, {3, 9, 100}}) {
    const TokenShard shard = make_shard(sizes);
    const BatchOrder batches = order(shard, epochs(1000));
    Coverage found = coverage(shard);
    for (int64_t k = 0; k < batches.num_batches(); ++k) ASSERT_EQ(found.add(batches.batch(k)), "");
    EXPECT_TRUE(found.is(1000));
    const BatchOrder endless = order(shard, steps(3));
    for (int64_t k = 0; k < 50; ++k) EXPECT_GT(endless.batch(k).num_targets, 0);
  }
}

// A run whose total changes: what came before stays, and every stream goes on without a gap.
TEST_P(BatchOrderProperties, ReplanKeepsThePastAndLosesNothing) {
  const TokenShard shard = make_shard(random_sizes(13, 150, 700));
  const BatchOrder before = order(shard, steps(90));
  const int64_t epoch_end = order(shard, epochs(2)).num_batches();
  const std::vector<Replan> replans = {{31, steps(40)}, {40, tokens(3000)}, {44, epochs(4)}};
  const BatchOrder after = order(shard, steps(90), 7, "corpus", replans);
  EXPECT_GT(after.num_batches(), epoch_end);
  Coverage found = coverage(shard);
  for (int64_t k = 0; k < after.num_batches(); ++k) {
    const Batch batch = after.batch(k);
    EXPECT_TRUE(k >= 31 || (batch.inputs == before.batch(k).inputs &&
                            batch.segments == before.batch(k).segments));
    ASSERT_EQ(found.add(batch), "");
  }
  EXPECT_TRUE(found.is(4));
  EXPECT_EQ(after.num_targets(), found.total());

  // A run of whole epochs, finished with short batches, is extended.
  const BatchOrder longer = order(shard, epochs(2), 7, "corpus", {{epoch_end, epochs(4)}});
  Coverage extended = coverage(shard);
  int64_t num_batches = 0;
  for (int64_t k = 0; k < longer.num_batches(); ++k) {
    ASSERT_EQ(extended.add(longer.batch(k)), "");
  }
  EXPECT_TRUE(extended.is(4));
  for (const LengthSummary& length : longer.lengths()) num_batches += length.batches;
  EXPECT_EQ(num_batches, longer.num_batches());
}

// A run that keeps its pace goes through the rest of the plan: unchanged where nothing changes,
// else with the same parts of each length at each point.
TEST_P(BatchOrderProperties, AReplanAtPaceGoesThroughTheRestOfThePlan) {
  const TokenShard shard = make_shard(random_sizes(13, 300, 700));
  const BatchOrder before = order(shard, steps(90));
  const auto replanned = [&](int64_t left) {
    return order(shard, steps(90), 7, "corpus",
                 {{.first_batch = 30, .left = steps(left), .pace = Pace{}}});
  };
  const BatchOrder same = replanned(60);
  ASSERT_EQ(same.num_batches(), 90);
  for (int64_t k = 0; k < 90; ++k) {
    const Batch batch = same.batch(k);
    EXPECT_TRUE(batch.inputs == before.batch(k).inputs &&
                batch.segments == before.batch(k).segments)
        << k;
  }
  const std::vector<int64_t> lengths = before.batch_lengths();
  const auto count = [&](const BatchOrder& batches, int64_t end, int64_t length) {
    const std::vector<int64_t> all = batches.batch_lengths();
    const auto found = std::find(all.begin(), all.end(), length);
    const std::vector<int64_t> counts = batches.count_lengths(30, end);
    return found == all.end() ? 0 : counts[static_cast<size_t>(found - all.begin())];
  };
  for (const int64_t left : {1, 20, 45, 120, 180}) {
    const BatchOrder after = replanned(left);
    ASSERT_EQ(after.num_batches(), 30 + left);
    Coverage found = coverage(shard);
    for (int64_t k = 0; k < after.num_batches(); ++k) ASSERT_EQ(found.add(after.batch(k)), "");
    for (int64_t done = 0; done <= left; ++done) {
      for (const int64_t length : lengths) {
        // A cap moves by whole batches, and a length with a batch waits for those behind it.
        const double due = static_cast<double>(left) / 60 *
                           static_cast<double>(count(before, 30 + done * 60 / left, length));
        EXPECT_NEAR(static_cast<double>(count(after, 30 + done, length)), due,
                    3 + 2 * std::max(1.0, static_cast<double>(left) / 60))
            << left << " " << done << " " << length;
      }
    }
  }
}

TEST_P(BatchOrderProperties, LengthsAreCountedWithoutVisitingBatches) {
  const TokenShard shard = make_shard(random_sizes(21, 80, 900));
  const BatchOrder batches =
      order(shard, steps(700), 7, "corpus", {{350, steps(400)}, {500, steps(150)}});
  const std::vector<int64_t> lengths = batches.batch_lengths();
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 650}, {0, 0}, {3, 4}, {17, 349}, {340, 505}, {600, 3000}, {2000, 5000}}) {
    std::vector<int64_t> expected(lengths.size());
    for (int64_t k = begin; k < end; ++k) {
      const auto found = std::find(lengths.begin(), lengths.end(), batches.batch_length(k));
      ++expected[static_cast<size_t>(found - lengths.begin())];
    }
    EXPECT_EQ(batches.count_lengths(begin, end), expected) << begin << " " << end;
  }
}

TEST_P(BatchOrderProperties, SourcesAreGivenByWeight) {
  const TokenShard shard = make_shard(random_sizes(14, 150, 700));
  const BatchOrder batches = order(shard, epochs(2));
  const Mixture sources = mixture(shard);
  ASSERT_EQ(batches.sources().size(), std::max<size_t>(1, sources.sources.size()));
  // No epoch is left at the middle, so this run ends there.
  const BatchOrder half =
      order(shard, epochs(2), 7, "corpus", {{batches.num_batches() / 2, epochs(1e-9)}});
  EXPECT_EQ(half.num_batches(), batches.num_batches() / 2);
  for (size_t i = 0; i < batches.sources().size(); ++i) {
    const SourceSummary& source = batches.sources()[i];
    EXPECT_GT(source.targets, 0);
    EXPECT_DOUBLE_EQ(source.epochs, 2 * source.weight);
    EXPECT_NEAR(half.sources()[i].epochs, source.weight, 0.35 * source.weight);
  }
}

}  // namespace
}  // namespace lmtrain
