// The examples of docs/batching.md, position by position, and the draw of the balanced cut.
#include "batching/pieces.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "batching/batch.h"
#include "batching/concat.h"
#include "batching/test_corpus.h"

namespace lmtrain {
namespace {

struct Row {
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
  bool operator==(const Row&) const = default;
};

constexpr int32_t kNone = kNoTarget;

std::vector<Row> rows_of(const Rows& rows) {
  std::vector<Row> all;
  for (size_t i = 0; i < rows.lengths().size(); ++i) {
    const auto length = static_cast<size_t>(rows.lengths()[i].length);
    for (int64_t row = 0; row < rows.lengths()[i].rows; ++row) {
      Row content{std::vector<int32_t>(length, 0), std::vector<int32_t>(length, kNone)};
      rows.fill(i, row, content.inputs, content.targets);
      all.push_back(content);
    }
  }
  return all;
}

// Documents of 8 and 3 tokens: ids 1..8 and 9..11.
TEST(Pieces, BucketTakesTheLargestThatFits) {
  const TokenShard shard = make_shard({8, 3});
  const PieceRows rows(shard, 2, bucket_cut(0, 2, 4, false));
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{5, 6}, {6, 7}},
                                             {{7, 0}, {8, kNone}},
                                             {{9, 10}, {10, 11}},
                                             {{1, 2, 3, 4}, {2, 3, 4, 5}}}));
}

TEST(Pieces, PadKeepsChunksWhole) {
  const TokenShard shard = make_shard({8, 3});
  const PieceRows rows(shard, 2, pad_cut(2, 4));
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{9, 10}, {10, 11}},
                                             {{1, 2, 3, 4}, {2, 3, 4, 5}},
                                             {{5, 6, 7, 0}, {6, 7, 8, kNone}}}));
}

TEST(Pieces, ConcatMasksTheBoundary) {
  const TokenShard shard =
      make_shard({8, 1, 3});  // the document of one token is left out: 1..8, 10..12
  const ConcatRows rows(shard, 4, std::nullopt);
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{1, 2, 3, 4}, {2, 3, 4, 5}},
                                             {{5, 6, 7, 8}, {6, 7, 8, kNone}},
                                             {{10, 11, 0, 0}, {11, 12, kNone, kNone}}}));
}

TEST(Pieces, ConcatRowsShareOneToken) {
  const TokenShard shard = make_shard({2, 4, 2});
  const ConcatRows rows(shard, 3, std::nullopt);
  EXPECT_EQ(rows_of(rows), (std::vector<Row>{{{1, 2, 3}, {2, kNone, 4}},
                                             {{4, 5, 6}, {5, 6, kNone}},
                                             {{7, 0, 0}, {8, kNone, kNone}}}));
}

TEST(Pieces, BalancedDrawsOneOverLength) {
  const CutRule cut = bucket_cut(99, 8, 64, true);
  std::map<int64_t, int64_t> count;
  constexpr int64_t kDraws = 150'000;
  for (int64_t i = 0; i < kDraws; ++i) ++count[cut(i / 100, i % 100 * 8, 64 + i)];
  ASSERT_EQ(count.size(), 4U);
  for (const auto& [length, times] : count) {
    // 8/15, 4/15, 2/15, 1/15; five standard deviations are below 1000.
    EXPECT_NEAR(static_cast<double>(times), kDraws * 8.0 / 15 * 8 / static_cast<double>(length),
                1000);
  }
}

TEST(Pieces, BalancedCutIsAFunctionOfFingerprintDocumentAndOffset) {
  const auto drawn = [](uint64_t fingerprint, int64_t document) {
    std::string lengths;
    const CutRule cut = bucket_cut(fingerprint, 8, 64, true);
    for (int64_t offset = 0; offset < 640; offset += 8) {
      lengths += std::to_string(cut(document, offset, 1000)) + " ";
    }
    return lengths;
  };
  EXPECT_EQ(drawn(1, 1), drawn(1, 1));
  EXPECT_NE(drawn(1, 1), drawn(1, 2));
  EXPECT_NE(drawn(1, 1), drawn(2, 1));
}

TEST(Pieces, OneLengthOnly) {
  const CutRule cut = bucket_cut(1, 16, 16, true);
  for (const int64_t remaining : {1, 15, 16, 17, 1000}) EXPECT_EQ(cut(0, 0, remaining), 16);
}

}  // namespace
}  // namespace lmtrain
