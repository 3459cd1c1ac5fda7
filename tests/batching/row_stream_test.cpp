// Streams of rows: mixtures by weight, and orders of 10^9 rows.
#include "batching/row_stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace lmtrain {
namespace {

using Group = RowStream::Group;

const ShuffleKey kShuffled("corpus", 7, true);
const ShuffleKey kInOrder("corpus", 7, false);

// [source][row]: how often among the rows [begin, end).
std::vector<std::map<int64_t, int64_t>> count(const RowStream& stream, size_t num_sources,
                                              int64_t begin, int64_t end) {
  std::vector<std::map<int64_t, int64_t>> counts(num_sources);
  RowStream::Reader reader(stream);
  for (int64_t j = begin; j < end; ++j) {
    const RowStream::SourceRow found = reader.at(j);
    ++counts.at(found.source)[found.row];
  }
  return counts;
}

TEST(RowStream, EverySourceComesByItsWeight) {
  const std::vector<Group> sources = {{3000, 1}, {500, 2}, {701, 0.5}, {0, 1}, {1, 0.25}, {90, 3}};
  for (const ShuffleKey& key : {kShuffled, kInOrder}) {
    const RowStream stream(sources, 64, key);
    // Four epochs are whole for each source.
    const auto counts = count(stream, sources.size(), 0, stream.rows_of_epochs(4));
    for (size_t i = 0; i < sources.size(); ++i) {
      EXPECT_EQ(counts[i].size(), static_cast<size_t>(sources[i].rows)) << i;
      for (const auto& [row, times] : counts[i]) {
        EXPECT_EQ(static_cast<double>(times), 4 * sources[i].weight) << i << " " << row;
      }
    }
  }
}

TEST(RowStream, SharesAreExactOverTheLongRun) {
  const std::vector<Group> sources = {{10, 0.1}, {7, 1.0 / 3}, {3, 1e-6}, {5, 0.7}};
  const RowStream stream(sources, 64, kShuffled);
  int64_t before = 0;
  for (const double epochs : {1.0, 2.0, 30.0, 3e3, 3e6, 3e9}) {
    const int64_t j = stream.rows_of_epochs(epochs);
    EXPECT_GE(j, before);
    before = j;
    for (size_t i = 0; i < sources.size(); ++i) {
      const double expected = epochs * sources[i].weight * static_cast<double>(sources[i].rows);
      EXPECT_NEAR(stream.drawn(j, i), expected, 0.5 + 1e-9 * expected) << i << " " << epochs;
    }
  }
}

// Among any 5000 rows in a row each source has its share, to a block.
TEST(RowStream, SourcesAreMixedThroughout) {
  const std::vector<Group> sources = {{30'000, 1}, {20'000, 2}, {10'000, 0.5}};
  for (const ShuffleKey& key : {kShuffled, kInOrder}) {
    const RowStream stream(sources, 64, key);
    for (int64_t begin = 0; begin < 150'000; begin += 5000) {
      const auto counts = count(stream, sources.size(), begin, begin + 5000);
      for (size_t i = 0; i < sources.size(); ++i) {
        double found = 0;
        for (const auto& [row, times] : counts[i]) found += static_cast<double>(times);
        const double share = sources[i].weight * static_cast<double>(sources[i].rows) / 75'000;
        EXPECT_NEAR(found, 5000 * share, key.shuffles() ? 120 : 4) << i;
        EXPECT_NEAR(stream.drawn(begin, i), static_cast<double>(begin) * share, 3);
      }
    }
  }
}

TEST(RowStream, InOrderEachSourceIsInOrder) {
  const RowStream stream({{40, 1}, {60, 1.5}}, 64, kInOrder);
  std::vector<int64_t> next(2, 0);
  RowStream::Reader reader(stream);
  for (int64_t j = 0; j < 1000; ++j) {
    const RowStream::SourceRow found = reader.at(j);
    const int64_t rows = found.source == 0 ? 40 : 60;
    EXPECT_EQ(found.row, next[found.source]++ % rows);
  }
}

TEST(RowStream, ARowIsFoundFromAnywhere) {
  const RowStream stream({{40, 1}, {60, 1.5}, {5000, 0.3}}, 64, kShuffled);
  RowStream::Reader forward(stream);
  for (const int64_t begin : {int64_t{0}, int64_t{123'456}, int64_t{1} << 40}) {
    for (int64_t j = begin; j < begin + 3000; ++j) {
      RowStream::Reader seeking(stream);
      const RowStream::SourceRow expected = forward.at(j);
      const RowStream::SourceRow found = seeking.at(j);
      ASSERT_EQ(found.source, expected.source) << j;
      ASSERT_EQ(found.row, expected.row) << j;
    }
  }
}

TEST(RowStream, KeysAndEpochsDecideTheOrder) {
  const std::vector<Group> sources = {{300, 1}, {200, 2}};
  const auto order = [&](const ShuffleKey& key, int64_t length, int64_t epoch) {
    const RowStream stream(sources, length, key);
    std::vector<std::pair<size_t, int64_t>> rows;
    RowStream::Reader reader(stream);
    for (int64_t j = 0; j < 700; ++j) {
      const RowStream::SourceRow found = reader.at(epoch * 700 + j);
      rows.emplace_back(found.source, found.row);
    }
    return rows;
  };
  const auto base = order(kShuffled, 64, 0);
  EXPECT_EQ(order(kShuffled, 64, 0), base);
  EXPECT_NE(order(kShuffled, 64, 1), base);
  EXPECT_NE(order(kShuffled, 128, 0), base);
  EXPECT_NE(order(ShuffleKey("corpus", 8, true), 64, 0), base);
  EXPECT_NE(order(ShuffleKey("another", 7, true), 64, 0), base);
  EXPECT_EQ(order(kInOrder, 64, 1), order(kInOrder, 64, 0));
}

}  // namespace
}  // namespace lmtrain
