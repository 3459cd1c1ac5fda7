#include "tokenizer/merge_candidates.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace lmtrain {
namespace {

const auto kEverywhere = [](uint32_t, uint32_t) { return true; };
const auto kNothing = [](uint32_t) {};

TEST(PairPlaces, AreTakenOnceInAscendingOrder) {
  PairPlaces places(100);
  places.note(3, 50);
  places.note(1, 60);
  places.note(3, 70);
  places.flush(kEverywhere, kNothing);
  std::set<uint32_t> touched;
  places.note(3, 10);
  places.flush(kEverywhere, [&](uint32_t pair) { touched.insert(pair); });
  EXPECT_EQ(touched, std::set<uint32_t>({3}));
  EXPECT_EQ(places.take(3), std::vector<uint32_t>({10, 50, 70}));
  EXPECT_EQ(places.take(3), std::vector<uint32_t>());
  EXPECT_EQ(places.take(1), std::vector<uint32_t>({60}));
}

// Room for 125 places holds any number of them as long as few are there at a time.
TEST(PairPlaces, ThoseThatAreGoneMakeRoom) {
  std::mt19937 random(5);
  PairPlaces places(100);
  std::set<std::pair<uint32_t, uint32_t>> there;
  uint32_t slot = 0;
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 20; ++i) {
      const auto pair = static_cast<uint32_t>(random() % 7);
      there.emplace(pair, slot);
      places.note(pair, slot++);
    }
    places.flush([&](uint32_t p, uint32_t s) { return there.contains({p, s}); }, kNothing);
    while (there.size() > 40) there.erase(std::next(there.begin(), random() % there.size()));
    if (round % 5 != 0) continue;
    const auto pair = static_cast<uint32_t>(random() % 7);
    std::set<uint32_t> taken;
    for (const uint32_t s : places.take(pair)) taken.insert(s);
    for (auto it = there.begin(); it != there.end();) {
      if (it->first == pair) {
        EXPECT_TRUE(taken.contains(it->second));
        it = there.erase(it);
      } else {
        ++it;
      }
    }
  }
}

// Counts rise and fall at random; the queue is told of rises alone.
TEST(PairQueue, FindsTheHighestCount) {
  std::mt19937 random(6);
  constexpr uint32_t kNumPairs = 200;
  std::vector<int64_t> counts(kNumPairs, 0);
  PairQueue queue;
  const auto comes_after = [](uint32_t a, uint32_t b) { return a > b; };
  const auto change = [&](uint32_t pair, int64_t count) {
    const bool rises = count > counts[pair];
    counts[pair] = count;
    if (rises) queue.offer(pair, count, comes_after);
  };
  for (uint32_t pair = 0; pair < kNumPairs; ++pair) change(pair, random() % 1000);
  for (int round = 0; round < 500; ++round) {
    for (int i = 0; i < 10; ++i) {
      const auto pair = static_cast<uint32_t>(random() % kNumPairs);
      if (counts[pair] > 0) change(pair, counts[pair] * (random() % 300) / 256);
    }
    const auto highest = std::max_element(counts.begin(), counts.end());
    const uint32_t expected =
        *highest == 0 ? PairQueue::kNone : static_cast<uint32_t>(highest - counts.begin());
    ASSERT_EQ(queue.pop(
                  kNumPairs, [&](uint32_t pair) { return counts[pair]; }, comes_after),
              expected);
    if (expected != PairQueue::kNone) counts[expected] = 0;
  }
}

}  // namespace
}  // namespace lmtrain
