// Properties that hold of every valid (batching, cut, schedule, shuffle), over random corpora.
#include "batching/batch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "batching/test_corpus.h"

namespace lmtrain {
namespace {

constexpr int64_t kBatchTokens = 256;

using Schedule = LengthScheduleType;

struct Setting {
  Batching batching;
  BucketCut cut;
  Schedule schedule;
  bool shuffle;
  bool mixture;
};

// Every pair that config/check.cpp lets through.
std::vector<Setting> valid_settings() {
  std::vector<Setting> settings;
  for (const bool shuffle : {true, false}) {
    for (const bool mixture : {false, true}) {
      const auto add = [&](Batching batching, BucketCut cut, Schedule schedule) {
        settings.push_back({batching, cut, schedule, shuffle, mixture});
      };
      for (const Schedule schedule :
           {Schedule::kConstant, Schedule::kLinear, Schedule::kRoot, Schedule::kStep}) {
        add(Batching::kPack, BucketCut::kBalanced, schedule);
        add(Batching::kConcat, BucketCut::kBalanced, schedule);
      }
      for (const auto& [schedule, name] : enum_names(Schedule{})) {
        add(Batching::kPad, BucketCut::kBalanced, schedule);
        add(Batching::kBucket, BucketCut::kBalanced, schedule);
        add(Batching::kBucket, BucketCut::kLongest, schedule);
      }
    }
  }
  return settings;
}

std::string name_of(const Setting& s) {
  return name_of(s.batching) + "_" + name_of(s.cut) + "_" + name_of(s.schedule) +
         (s.shuffle ? "_shuffled" : "_in_order") + (s.mixture ? "_mixture" : "");
}

void PrintTo(const Setting& setting, std::ostream* out) { *out << name_of(setting); }

RunLength steps(int64_t n) { return {.steps = n}; }
RunLength tokens(int64_t n) { return {.tokens = n}; }
RunLength epochs(double n) { return {.epochs = n}; }

class BatchOrderProperties : public testing::TestWithParam<Setting> {
 protected:
  BatchOrder order(const TokenShard& shard, const RunLength& run, int64_t seed = 7,
                   const std::string& fingerprint = "corpus",
                   const std::vector<Replan>& replans = {}) const {
    return order_of(GetParam().schedule, shard, run, seed, fingerprint, replans);
  }
  // The same without a cap: what the rows are before they are divided.
  BatchOrder uncapped(const TokenShard& shard, const RunLength& run) const {
    return order_of(caps() ? Schedule::kConstant : GetParam().schedule, shard, run, 7, "corpus",
                    {});
  }
  Coverage coverage(const TokenShard& shard) const {
    return {shard, mixture(shard), GetParam().batching != Batching::kConcat};
  }
  // An even number of epochs is whole for each source.
  Mixture mixture(const TokenShard& shard) const {
    return GetParam().mixture ? mixture_of(shard.num_documents(), {1, 2, 0.5}) : one_source();
  }
  bool caps() const {
    const Schedule schedule = GetParam().schedule;
    return schedule == Schedule::kLinear || schedule == Schedule::kRoot ||
           schedule == Schedule::kStep;
  }
  double targets_an_epoch(const TokenShard& shard) const {
    const Mixture sources = mixture(shard);
    double targets = 0;
    for (int64_t i = 0; i < shard.num_documents(); ++i) {
      const auto size = static_cast<double>(shard.document_size(i));
      targets += std::max(0.0, size - 1) * sources.weight_of(i);
    }
    return targets;
  }

 private:
  BatchOrder order_of(Schedule schedule, const TokenShard& shard, const RunLength& run,
                      int64_t seed, const std::string& fingerprint,
                      const std::vector<Replan>& replans) const {
    SequenceConfig sequence;
    sequence.max_length = 64;
    sequence.min_length = 8;
    sequence.batching = GetParam().batching;
    sequence.cut = GetParam().cut;
    sequence.schedule.type = schedule;
    sequence.schedule.cycles = 3;
    sequence.schedule.duration = {70, TrainingDuration::Unit::kPercent};
    sequence.schedule.lengths = {8, 32};
    sequence.schedule.boundaries = {{20, TrainingDuration::Unit::kPercent},
                                    {60, TrainingDuration::Unit::kPercent}};
    DataConfig data;
    data.shuffle = GetParam().shuffle;
    const Mixture sources = mixture(shard);
    data.train = sources.sources;
    return BatchOrder({.shard = shard,
                       .sources = sources.runs,
                       .fingerprint = fingerprint,
                       .sequence = sequence,
                       .data = data,
                       .data_seed = seed,
                       .batch_tokens = kBatchTokens,
                       .run = run,
                       .replans = replans});
  }
};

// Rows of `length` that are not masked, also where a cap has divided them.
int64_t rows_drawn(const Batch& batch, int64_t length) {
  int64_t rows = 0;
  for (size_t i = 0; i < batch.inputs.size(); i += static_cast<size_t>(length)) {
    rows += batch.inputs[i] != 0;
  }
  return rows;
}

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
    EXPECT_LE(length.rows_per_epoch, length.pieces_per_epoch + 1);  // shares are rounded
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
  const auto ahead = std::async(std::launch::async, [&] {
    std::vector<Batch> found;
    for (int64_t k = 0; k < 100; ++k) found.push_back(one.batch(k));
    return found;
  });
  for (int64_t k = 99; k >= 0; --k) expect_same(k);
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
  const std::vector<double> middle = batches.source_epochs(batches.num_batches() / 2);
  for (size_t i = 0; i < batches.sources().size(); ++i) {
    const SourceSummary& source = batches.sources()[i];
    EXPECT_GT(source.targets, 0);
    EXPECT_DOUBLE_EQ(source.epochs, 2 * source.weight);
    EXPECT_NEAR(middle[i], source.weight, 0.35 * source.weight);
    EXPECT_EQ(batches.source_epochs(0)[i], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, BatchOrderProperties, testing::ValuesIn(valid_settings()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace lmtrain
