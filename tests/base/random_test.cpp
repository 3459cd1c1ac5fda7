#include "base/random.h"

#include <gtest/gtest.h>

#include <bit>
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

// Where seed and stream are combined symmetrically, seed 1 stream 2 is seed 2 stream 1.
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

// The network run backwards, written from its description.
uint64_t inverse(uint64_t image, uint64_t size, uint64_t key) {
  const auto half = static_cast<unsigned>(std::bit_width(size - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = image >> half;
    uint64_t right = image & mask;
    for (uint64_t round = 4; round-- > 0;) {
      const uint64_t before = right ^ (hash_combine(key + round, left) & mask);
      right = left;
      left = before;
    }
    image = (left << half) | right;
  } while (image >= size);
  return image;
}

// Every image has an index and every index an image: a bijection, as far as samples tell.
TEST(Permutation, HasAnInverseAtABillion) {
  constexpr uint64_t kSize = 1'000'000'000;
  for (const uint64_t key : {uint64_t{1}, uint64_t{2}, ~uint64_t{0}}) {
    const Permutation permutation(kSize, key);
    for (uint64_t i = 0; i < 100'000; ++i) {
      const uint64_t sample = i < 1000 ? i : random_bits(key, RandomStream::kSample, i) % kSize;
      ASSERT_LT(permutation(sample), kSize);
      ASSERT_EQ(inverse(permutation(sample), kSize, key), sample);
      ASSERT_EQ(permutation(inverse(sample, kSize, key)), sample);
    }
  }
  // The inverse with another key is none.
  EXPECT_NE(inverse(Permutation(kSize, 1)(5), kSize, 2), 5U);
}

// Sum over bins of (found - expected)² / expected.
double chi_square(const std::vector<uint64_t>& cells, size_t num_cells) {
  std::vector<double> bins(num_cells, 0.0);
  for (const uint64_t cell : cells) ++bins.at(cell);
  const double expected = static_cast<double>(cells.size()) / static_cast<double>(num_cells);
  double sum = 0.0;
  for (const double bin : bins) sum += (bin - expected) * (bin - expected) / expected;
  return sum;
}

// The images of indices in a row lie anywhere, and so do those of neighbours together.
TEST(Permutation, IsUniformAtABillion) {
  constexpr uint64_t kSize = 1'000'000'000;
  constexpr uint64_t kCount = 400'000;
  for (uint64_t key = 1; key <= 5; ++key) {
    const Permutation permutation(kSize, key);
    const uint64_t first = random_bits(key, RandomStream::kSample, 0) % (kSize - kCount);
    std::vector<uint64_t> singles;
    std::vector<uint64_t> pairs;
    std::vector<uint64_t> regular;
    for (uint64_t i = 0; i < kCount; ++i) {
      const uint64_t image = permutation(first + i);
      const uint64_t next = permutation(first + (i + 1) % kCount);
      singles.push_back(image * 1024 / kSize);
      pairs.push_back(image * 32 / kSize * 32 + next * 32 / kSize);
      regular.push_back((first + i) * 1024 / kSize);
    }
    // 1023 degrees of freedom: mean 1023, standard deviation 45; six of them.
    EXPECT_NEAR(chi_square(singles, 1024), 1023, 271) << key;
    EXPECT_NEAR(chi_square(pairs, 1024), 1023, 271) << key;
    EXPECT_GT(chi_square(regular, 1024), 1e6);
  }
}

}  // namespace
}  // namespace lmtrain
