#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <unordered_set>
#include <vector>

namespace lmtrain {
namespace {

TEST(Random, NeverChanges) {
  EXPECT_EQ(random_bits(1337, RandomStream::kOrder, 0), 15542127797817347525U);
  EXPECT_EQ(random_bits(1337, RandomStream::kOrder, 1), 13321747013162479522U);
  const Permutation permutation(10, 7);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 10; ++i) order.push_back(permutation(i));
  EXPECT_EQ(order, (std::vector<uint64_t>{5, 9, 0, 6, 1, 7, 3, 2, 4, 8}));
}

size_t num_distinct(uint64_t first_seed) {
  std::unordered_set<uint64_t> seen;
  for (uint64_t seed = first_seed; seed < first_seed + 10; ++seed) {
    for (const auto stream : {RandomStream::kInit, RandomStream::kCut, RandomStream::kSample}) {
      for (uint64_t index = 0; index < 1000; ++index) seen.insert(random_bits(seed, stream, index));
    }
  }
  return seen.size();
}

TEST(Random, DiffersBySeedStreamAndIndex) { EXPECT_EQ(num_distinct(1337), 30'000U); }

// Fails: random_bits combines mix64(seed) with mix64(stream) by XOR, so seed 1 stream 2 is seed 2
// stream 1, and every seed that equals its stream's number gives the same values.
TEST(Random, DiffersAlsoForSeedsAsSmallAsStreams) { EXPECT_EQ(num_distinct(0), 30'000U); }

TEST(Random, UniformCoversTheUnitInterval) {
  constexpr int kCount = 100'000;
  std::vector<int> bins(10);
  double sum = 0.0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double u = random_uniform(3, RandomStream::kSample, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    ++bins[static_cast<size_t>(u * 10)];
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);
  for (const int bin : bins) EXPECT_NEAR(bin, kCount * 0.1, 500);
}

TEST(Random, NormalHasItsMoments) {
  constexpr int kCount = 100'000;
  double sum = 0.0;
  double squares = 0.0;
  double fourth = 0.0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = random_normal(3, RandomStream::kInit, i);
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.015);
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
  EXPECT_NEAR(fourth / kCount, 3.0, 0.15);
}

TEST(Permutation, IsABijectionForEverySize) {
  std::vector<uint64_t> sizes = {0, 1000, 1023, 1024, 1025, 4095, 4096, 4097, 65'537, 100'003};
  for (uint64_t size = 1; size <= 130; ++size) sizes.push_back(size);
  for (const uint64_t size : sizes) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      const Permutation permutation(size, key);
      ASSERT_EQ(permutation.size(), size);
      std::vector<bool> seen(size);
      for (uint64_t i = 0; i < size; ++i) {
        const uint64_t image = permutation(i);
        ASSERT_LT(image, size);
        ASSERT_FALSE(seen[image]) << "size " << size << " key " << key;
        seen[image] = true;
      }
    }
  }
}

TEST(Permutation, HoldsForHugeSizes) {
  for (const uint64_t size : {(uint64_t{1} << 40) + 1, uint64_t{1} << 63, ~uint64_t{0}}) {
    const Permutation permutation(size, 5);
    std::unordered_set<uint64_t> seen;
    for (uint64_t i = 0; i < 1000; ++i) {
      for (const uint64_t index : {i, size - 1 - i}) {
        const uint64_t image = permutation(index);
        ASSERT_LT(image, size);
        ASSERT_TRUE(seen.insert(image).second);
      }
    }
  }
}

TEST(Permutation, DiffersByKeyAndMixes) {
  constexpr uint64_t kSize = 10'000;
  const Permutation first(kSize, 1);
  const Permutation second(kSize, 2);
  int equal = 0;
  int neighbours = 0;
  double correlation = 0.0;
  for (uint64_t i = 0; i < kSize; ++i) {
    equal += first(i) == second(i) ? 1 : 0;
    neighbours += i > 0 && first(i) == first(i - 1) + 1 ? 1 : 0;
    correlation += (static_cast<double>(i) / kSize - 0.5) *
                   (static_cast<double>(first(i)) / kSize - 0.5) * 12.0 / kSize;
  }
  // One each is what chance gives.
  EXPECT_LT(equal, 10);
  EXPECT_LT(neighbours, 10);
  EXPECT_NEAR(correlation, 0.0, 0.05);
}

}  // namespace
}  // namespace lmtrain
