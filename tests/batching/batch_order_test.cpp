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

struct Setting {
  std::string batching;
  std::string cut;
  std::string schedule;
  bool shuffle;
};

std::vector<Setting> valid_settings() {
  std::vector<Setting> settings;
  for (const bool shuffle : {true, false}) {
    settings.push_back({"concat", "balanced", "constant", shuffle});
    for (const char* schedule : {"constant", "natural", "grow_linear", "grow_p2"}) {
      settings.push_back({"pad", "balanced", schedule, shuffle});
      settings.push_back({"bucket", "balanced", schedule, shuffle});
      settings.push_back({"bucket", "longest", schedule, shuffle});
    }
  }
  return settings;
}

std::string name_of(const Setting& s) {
  return s.batching + "_" + s.cut + "_" + s.schedule + (s.shuffle ? "_shuffled" : "_in_order");
}

void PrintTo(const Setting& setting, std::ostream* out) { *out << name_of(setting); }

class BatchOrderProperties : public testing::TestWithParam<Setting> {
 protected:
  BatchOrder order(const TokenShard& shard, const RunLength& run, int64_t seed = 7,
                   const std::string& fingerprint = "corpus",
                   const std::vector<Replan>& replans = {}) const {
    SequenceConfig sequence;
    sequence.max_length = 64;
    sequence.min_length = 8;
    sequence.batching = GetParam().batching;
    sequence.cut = GetParam().cut;
    sequence.schedule.type = GetParam().schedule;
    sequence.schedule.cycles = 3;
    DataConfig data;
    data.shuffle = GetParam().shuffle;
    return BatchOrder(shard, fingerprint, sequence, data, seed, kBatchTokens, run, replans);
  }
};

RunLength steps(int64_t n) { return {.steps = n}; }
RunLength tokens(int64_t n) { return {.tokens = n}; }
RunLength epochs(double n) { return {.epochs = n}; }

int64_t targets_an_epoch(const TokenShard& shard) {
  int64_t targets = 0;
  for (int64_t i = 0; i < shard.num_documents(); ++i) {
    targets += std::max<int64_t>(0, shard.document_size(i) - 1);
  }
  return targets;
}

TEST_P(BatchOrderProperties, EpochsTrainEachTargetExactlyThatOften) {
  for (const uint64_t corpus : {1, 2, 3}) {
    const TokenShard shard = make_shard(random_sizes(corpus, 120, 700));
    for (const int64_t n : {1, 3}) {
      const BatchOrder batches = order(shard, epochs(static_cast<double>(n)));
      Coverage coverage(shard);
      for (int64_t k = 0; k < batches.num_batches(); ++k) coverage.add(batches.batch(k));
      EXPECT_TRUE(coverage.all_between(n, n)) << "corpus " << corpus;
      EXPECT_EQ(coverage.total(), n * targets_an_epoch(shard));
      EXPECT_EQ(batches.num_targets(), coverage.total());
    }
  }
}

TEST_P(BatchOrderProperties, CoverageNoticesABatchLostOrRepeated) {
  const TokenShard shard = make_shard(random_sizes(4, 120, 700));
  const BatchOrder batches = order(shard, epochs(1));
  for (const bool lost : {true, false}) {
    Coverage coverage(shard);
    for (int64_t k = 0; k < batches.num_batches(); ++k) {
      if (k == 5 && lost) continue;
      coverage.add(batches.batch(k));
      if (k == 5) coverage.add(batches.batch(k));
    }
    EXPECT_FALSE(coverage.all_between(1, 1));
  }
}

TEST_P(BatchOrderProperties, FractionalEpochsAddThatFractionOfTheRows) {
  const TokenShard shard = make_shard(random_sizes(5, 150, 700));
  for (const double n : {0.4, 2.5}) {
    const BatchOrder batches = order(shard, epochs(n));
    Coverage coverage(shard);
    std::map<int64_t, int64_t> rows;
    for (int64_t k = 0; k < batches.num_batches(); ++k) {
      const Batch batch = batches.batch(k);
      coverage.add(batch);
      rows[batch.length] +=
          batch.rows - std::count(batch.documents.begin(), batch.documents.end(), -1);
    }
    EXPECT_TRUE(coverage.all_between(static_cast<int64_t>(std::floor(n)),
                                     static_cast<int64_t>(std::ceil(n))));
    for (const LengthSummary& length : batches.lengths()) {
      EXPECT_EQ(rows[length.length], std::llround(n * static_cast<double>(length.rows_per_epoch)));
    }
  }
}

TEST_P(BatchOrderProperties, OnlyTheLastBatchOfALengthIsShort) {
  const TokenShard shard = make_shard(random_sizes(6, 150, 700));
  const BatchOrder batches = order(shard, epochs(2));
  std::set<int64_t> ended;
  std::map<int64_t, int64_t> count;
  for (int64_t k = 0; k < batches.num_batches(); ++k) {
    const Batch batch = batches.batch(k);
    EXPECT_FALSE(ended.contains(batch.length));
    if (batch.documents.back() == -1) ended.insert(batch.length);
    ++count[batch.length];
  }
  for (const LengthSummary& length : batches.lengths()) {
    EXPECT_EQ(length.batches, count[length.length]);
  }
}

TEST_P(BatchOrderProperties, PositionsPerStepAreConstant) {
  const TokenShard shard = make_shard(random_sizes(7, 120, 700));
  for (const RunLength& run : {steps(50), tokens(9000), epochs(1.3)}) {
    const BatchOrder batches = order(shard, run);
    for (int64_t k = 0; k < batches.num_batches(); ++k) {
      const Batch batch = batches.batch(k);
      EXPECT_EQ(batch.index, k);
      EXPECT_EQ(batch.rows * batch.length, kBatchTokens);
      EXPECT_EQ(batch.length, batches.batch_length(k));
      EXPECT_GT(batch.num_targets, 0);
    }
  }
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
  const bool keyed_cut = GetParam().batching == "bucket" && GetParam().cut == "balanced";
  EXPECT_EQ(content(order(shard, steps(40), 7, "another")) == base,
            !GetParam().shuffle && !keyed_cut);
}

// Each length's rows of epoch e are all drawn before one of epoch e + 1, in full batches that
// straddle the two.
TEST_P(BatchOrderProperties, StreamsRunEpochAfterEpoch) {
  const TokenShard shard = make_shard(random_sizes(11, 100, 500));
  const BatchOrder batches = order(shard, steps(400));
  std::map<int64_t, std::vector<int32_t>> stream;  // by length: the first input of each row
  for (int64_t k = 0; k < batches.num_batches(); ++k) {
    const Batch batch = batches.batch(k);
    EXPECT_EQ(std::count(batch.documents.begin(), batch.documents.end(), -1), 0);
    for (int64_t row = 0; row < batch.rows; ++row) {
      stream[batch.length].push_back(batch.inputs[static_cast<size_t>(row * batch.length)]);
    }
  }
  bool straddled = false;
  for (const LengthSummary& length : batches.lengths()) {
    const auto size = static_cast<size_t>(length.rows_per_epoch);
    const auto& rows = stream[length.length];
    straddled |= rows.size() > size && length.rows_per_epoch % (kBatchTokens / length.length) != 0;
    std::vector<std::vector<int32_t>> by_epoch;
    for (size_t begin = 0; begin < rows.size(); begin += size) {
      const std::vector<int32_t> epoch(
          rows.begin() + static_cast<int64_t>(begin),
          rows.begin() + static_cast<int64_t>(std::min(rows.size(), begin + size)));
      EXPECT_EQ(std::set<int32_t>(epoch.begin(), epoch.end()).size(), epoch.size());
      EXPECT_TRUE(GetParam().shuffle || std::is_sorted(epoch.begin(), epoch.end()));
      if (epoch.size() == size && size > 20) by_epoch.push_back(epoch);
    }
    for (size_t e = 1; e < by_epoch.size(); ++e) {
      EXPECT_EQ(by_epoch[e] == by_epoch[0], !GetParam().shuffle) << "epoch " << e;
    }
  }
  EXPECT_TRUE(straddled);
}

TEST_P(BatchOrderProperties, LengthsShareTheRunInProportion) {
  const TokenShard shard = make_shard(random_sizes(11, 200, 700));
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
    for (int64_t k = 0; k < n; ++k) ++count[batches.batch_length(k)];
    expect_shares(batches, count, static_cast<double>(n), 1.0);
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
    Coverage coverage(shard);
    for (int64_t k = 0; k < batches.num_batches(); ++k) coverage.add(batches.batch(k));
    EXPECT_TRUE(coverage.all_between(1000, 1000));
    const BatchOrder endless = order(shard, steps(2));
    for (int64_t k = 0; k < 50; ++k) EXPECT_GT(endless.batch(k).num_targets, 0);
  }
}

// A run whose total changes: what came before stays, and every stream goes on without a gap.
TEST_P(BatchOrderProperties, ReplanKeepsThePastAndLosesNothing) {
  const TokenShard shard = make_shard(random_sizes(13, 150, 700));
  const BatchOrder before = order(shard, steps(90));
  const int64_t epoch_end = order(shard, epochs(1)).num_batches();
  const std::vector<Replan> replans = {{31, steps(40)}, {40, tokens(3000)}, {44, epochs(3)}};
  const BatchOrder after = order(shard, steps(90), 7, "corpus", replans);
  EXPECT_GT(after.num_batches(), epoch_end);
  Coverage coverage(shard);
  for (int64_t k = 0; k < after.num_batches(); ++k) {
    const Batch batch = after.batch(k);
    EXPECT_TRUE(k >= 31 || batch.inputs == before.batch(k).inputs);
    coverage.add(batch);
  }
  EXPECT_TRUE(coverage.all_between(3, 3));
  EXPECT_EQ(after.num_targets(), coverage.total());

  // A run of whole epochs, finished with short batches, is extended by one.
  const BatchOrder longer = order(shard, epochs(1), 7, "corpus", {{epoch_end, epochs(2)}});
  Coverage extended(shard);
  int64_t num_batches = 0;
  for (int64_t k = 0; k < longer.num_batches(); ++k) extended.add(longer.batch(k));
  EXPECT_TRUE(extended.all_between(2, 2));
  for (const LengthSummary& length : longer.lengths()) num_batches += length.batches;
  EXPECT_EQ(num_batches, longer.num_batches());
}

INSTANTIATE_TEST_SUITE_P(Every, BatchOrderProperties, testing::ValuesIn(valid_settings()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace lmtrain
