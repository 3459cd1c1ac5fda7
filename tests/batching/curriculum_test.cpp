// Orders of lengths: the weights as published, shares, and counting.
#include "batching/curriculum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

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
}  // namespace lmtrain
