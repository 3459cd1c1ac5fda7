// Best fit, decreasing, against the definition, and on many documents.
#include "batching/best_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.h"

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
}  // namespace lmtrain
