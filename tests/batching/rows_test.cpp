// Best fit, decreasing, against the definition, and on many documents.
#include "batching/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "batching/batch.h"
#include "batching/test_corpus.h"

namespace lmtrain {
namespace {

std::vector<uint32_t> random_items(uint64_t seed, size_t count, uint32_t largest) {
  std::vector<uint32_t> sizes;
  for (size_t i = 0; i < count; ++i) {
    const double u = random_uniform(seed, RandomStream::kSample, i);
    sizes.push_back(static_cast<uint32_t>(std::pow(static_cast<double>(largest), u)));
  }
  return sizes;
}

std::vector<uint32_t> loads(const std::vector<uint32_t>& sizes, const Packing& packing) {
  std::vector<uint32_t> loads(packing.num_bins, 0);
  for (size_t i = 0; i < sizes.size(); ++i) loads.at(packing.bins.at(i)) += sizes[i];
  return loads;
}

// By the book: each item from the largest down into the fullest bin that takes it.
std::vector<uint32_t> loads_by_definition(std::vector<uint32_t> sizes, uint32_t capacity) {
  std::sort(sizes.rbegin(), sizes.rend());
  std::vector<uint32_t> loads;
  for (const uint32_t size : sizes) {
    auto best = loads.end();
    for (auto bin = loads.begin(); bin != loads.end(); ++bin) {
      if (*bin + size <= capacity && (best == loads.end() || *bin > *best)) best = bin;
    }
    if (best == loads.end()) best = loads.insert(loads.end(), 0);
    *best += size;
  }
  return loads;
}

TEST(BestFit, IsBestFitDecreasing) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const uint32_t capacity = seed % 2 == 0 ? 16 : 97;
    const auto sizes = random_items(seed, seed, capacity);
    auto found = loads(sizes, pack_best_fit(sizes, capacity));
    auto expected = loads_by_definition(sizes, capacity);
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected) << seed;
  }
}

TEST(BestFit, BinsAreNumberedByTheirFirstItem) {
  const auto sizes = random_items(3, 5000, 64);
  const Packing packing = pack_best_fit(sizes, 64);
  uint32_t next = 0;
  for (const uint32_t bin : packing.bins) {
    ASSERT_LE(bin, next);
    next = std::max(next, bin + 1);
  }
  EXPECT_EQ(next, packing.num_bins);
}

TEST(BestFit, Extremes) {
  EXPECT_EQ(pack_best_fit({}, 8).num_bins, 0U);
  EXPECT_EQ(pack_best_fit(std::vector<uint32_t>(10, 8), 8).num_bins, 10U);
  EXPECT_EQ(pack_best_fit(std::vector<uint32_t>(10, 1), 8).num_bins, 2U);
  EXPECT_EQ(pack_best_fit(std::vector<uint32_t>(10, 5), 8).num_bins, 10U);
}

// A quadratic algorithm would take hours; this takes a fraction of a second.
TEST(BestFit, AMillionItems) {
  const auto sizes = random_items(5, 1'000'000, 2048);
  const auto begin = std::chrono::steady_clock::now();
  const Packing packing = pack_best_fit(sizes, 2048);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const auto filled = loads(sizes, packing);
  EXPECT_LE(*std::max_element(filled.begin(), filled.end()), 2048U);
  const double total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  EXPECT_LT(packing.num_bins, 1 + total / 2048 * 1.0001);
  EXPECT_LT(seconds.count(), 20);
}

}  // namespace

// The examples of docs/batching.md, position by position, and the draw of the balanced cut.

namespace {

struct Row {
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
  bool operator==(const Row&) const = default;
};

constexpr int32_t kNone = kNoTarget;

DocumentList all_of(const TokenShard& shard) {
  DocumentList documents;
  documents.add(0, shard.num_documents());
  return documents;
}

// All rows; their sequences are counted against lengths().
std::vector<Row> rows_of(const Rows& rows) {
  std::vector<Row> all;
  std::vector<RowSequence> sequences;
  for (size_t i = 0; i < rows.lengths().size(); ++i) {
    const auto length = static_cast<size_t>(rows.lengths()[i].length);
    for (int64_t row = 0; row < rows.lengths()[i].rows; ++row) {
      Row content{std::vector<int32_t>(length, 0), std::vector<int32_t>(length, kNone)};
      const size_t before = sequences.size();
      rows.fill(i, row, content.inputs, content.targets, sequences);
      EXPECT_EQ(sequences.at(before).position, 0);
      all.push_back(content);
    }
    EXPECT_EQ(static_cast<int64_t>(sequences.size()), rows.lengths()[i].sequences);
    sequences.clear();
  }
  return all;
}

// Documents of 8 and 3 tokens: ids 1..8 and 9..11.
TEST(Rows, BucketTakesTheLargestThatFits) {
  const TokenShard shard = make_shard({8, 3});
  const SequenceRows rows(shard, all_of(shard), bucket_cut(0, 2, 4, false));
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{5, 6}, {6, 7}},
                                             {{7, 0}, {8, kNone}},
                                             {{9, 10}, {10, 11}},
                                             {{1, 2, 3, 4}, {2, 3, 4, 5}}}));
}

TEST(Rows, PadKeepsChunksWhole) {
  const TokenShard shard = make_shard({8, 3});
  const SequenceRows rows(shard, all_of(shard), pad_cut(2, 4));
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{9, 10}, {10, 11}},
                                             {{1, 2, 3, 4}, {2, 3, 4, 5}},
                                             {{5, 6, 7, 0}, {6, 7, 8, kNone}}}));
}

// Documents of 12, 3, 5 and 2 tokens: 1..12, 13..15, 16..20, 21..22.
TEST(Rows, PackFillsRowsFromTheLargestDown) {
  const TokenShard shard = make_shard({12, 3, 5, 2});
  const SequenceRows rows(shard, all_of(shard), pack_cut(5));
  // Tails of 1, 2, 4 and 1 targets: 4 with the first 1, 2 with the other.
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{1, 2, 3, 4, 5}, {2, 3, 4, 5, 6}},
                                             {{6, 7, 8, 9, 10}, {7, 8, 9, 10, 11}},
                                             {{11, 16, 17, 18, 19}, {12, 17, 18, 19, 20}},
                                             {{13, 14, 21, 0, 0}, {14, 15, 22, kNone, kNone}}}));
}

// Documents of 6, 2, 3 and 4 tokens: 1..6, 7..8, 9..11, 12..15.
TEST(Rows, TailsOfBucketShareRowsAmongWholeOnes) {
  const TokenShard shard = make_shard({6, 2, 3, 4});
  const SequenceRows rows(shard, all_of(shard), bucket_cut(0, 2, 4, false));
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{5, 7}, {6, 8}},
                                             {{9, 10}, {10, 11}},
                                             {{12, 13}, {13, 14}},
                                             {{14, 0}, {15, kNone}},
                                             {{1, 2, 3, 4}, {2, 3, 4, 5}}}));
}

TEST(Rows, ConcatMasksTheBoundary) {
  const TokenShard shard =
      make_shard({8, 1, 3});  // the document of one token is left out: 1..8, 10..12
  const ConcatRows rows(shard, all_of(shard), 4, std::nullopt);
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{1, 2, 3, 4}, {2, 3, 4, 5}},
                                             {{5, 6, 7, 8}, {6, 7, 8, kNone}},
                                             {{10, 11, 0, 0}, {11, 12, kNone, kNone}}}));
}

TEST(Rows, ConcatRowsShareOneToken) {
  const TokenShard shard = make_shard({2, 4, 2});
  const ConcatRows rows(shard, all_of(shard), 3, std::nullopt);
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{1, 2, 3}, {2, kNone, 4}},
                                             {{4, 5, 6}, {5, 6, kNone}},
                                             {{7, 0, 0}, {8, kNone, kNone}}}));
}

TEST(Rows, BalancedDrawsOneOverLength) {
  const CutRule cut = bucket_cut(99, 8, 64, true);
  std::map<int64_t, int64_t> count;
  constexpr int64_t kDraws = 150'000;
  for (int64_t i = 0; i < kDraws; ++i) ++count[cut.length(i / 100, i % 100 * 8, 64 + i)];
  ASSERT_EQ(count.size(), 4U);
  for (const auto& [length, times] : count) {
    // 8/15, 4/15, 2/15, 1/15; five standard deviations are below 1000.
    EXPECT_NEAR(static_cast<double>(times), kDraws * 8.0 / 15 * 8 / static_cast<double>(length),
                1000);
  }
}

TEST(Rows, BalancedCutIsAFunctionOfFingerprintDocumentAndOffset) {
  const auto drawn = [](uint64_t fingerprint, int64_t document) {
    std::string lengths;
    const CutRule cut = bucket_cut(fingerprint, 8, 64, true);
    for (int64_t offset = 0; offset < 640; offset += 8) {
      lengths += std::to_string(cut.length(document, offset, 1000)) + " ";
    }
    return lengths;
  };
  EXPECT_EQ(drawn(1, 1), drawn(1, 1));
  EXPECT_NE(drawn(1, 1), drawn(1, 2));
  EXPECT_NE(drawn(1, 1), drawn(2, 1));
}

TEST(Rows, OneLengthOnly) {
  const CutRule cut = bucket_cut(1, 16, 16, true);
  for (const int64_t remaining : {1, 15, 16, 17, 1000}) EXPECT_EQ(cut.length(0, 0, remaining), 16);
}

}  // namespace

}  // namespace lmtrain
