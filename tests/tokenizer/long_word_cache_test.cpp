#include "tokenizer/long_word_cache.h"

#include <gtest/gtest.h>

#include <string>

#include "base/hash.h"

namespace lmtrain {
namespace {

using Ids = std::vector<int32_t>;

Ids find(const LongWordCache& cache, const std::string& word) {
  const std::span<const int32_t> ids = cache.find(word, hash64(word));
  return {ids.begin(), ids.end()};
}

TEST(LongWordCache, GivesTheIdsOfAWord) {
  LongWordCache cache;
  EXPECT_EQ(find(cache, "abc"), Ids());
  for (size_t size = 1; size < 200; ++size) {
    const std::string word(size, 'x');
    EXPECT_EQ(find(cache, word), Ids());
    cache.insert(word, hash64(word), Ids(1 + size / 3, static_cast<int32_t>(size)));
  }
  for (size_t size = 1; size < 200; ++size)
    EXPECT_EQ(find(cache, std::string(size, 'x')), Ids(1 + size / 3, static_cast<int32_t>(size)));
}

TEST(LongWordCache, TellsWordsOfOneHashApart) {
  LongWordCache cache;
  cache.insert("first word", 7, Ids{1});
  const auto found = [&](std::string_view word) {
    const std::span<const int32_t> ids = cache.find(word, 7);
    return Ids(ids.begin(), ids.end());
  };
  EXPECT_EQ(found("other word"), Ids());
  EXPECT_EQ(found("first"), Ids());
  cache.insert("other word", 7, Ids{2});
  EXPECT_EQ(found("first word"), Ids{1});
  EXPECT_EQ(found("other word"), Ids{2});
  cache.insert("third word", 7, Ids{3});
  EXPECT_EQ(found("other word"), Ids());
  EXPECT_EQ(found("third word"), Ids{3});
}

TEST(LongWordCache, KeepsNoWordWithoutIdsOrOfTooManyBytes) {
  LongWordCache cache;
  cache.insert("abc", 1, {});
  EXPECT_TRUE(cache.find("abc", 1).empty());
  const std::string word(LongWordCache::kLongestWord + 1, 'x');
  cache.insert(word, 2, Ids{3});
  EXPECT_TRUE(cache.find(word, 2).empty());
}

// Two of these words in one place would be encoded again each time.
TEST(LongWordCache, KeepsThousandsOfWords) {
  LongWordCache cache;
  const auto word_of = [](int32_t i) { return std::to_string(i) + std::string(60, 'y'); };
  for (int32_t i = 0; i < 4000; ++i) cache.insert(word_of(i), hash64(word_of(i)), Ids{i});
  int32_t found = 0;
  for (int32_t i = 0; i < 4000; ++i) found += find(cache, word_of(i)) == Ids{i} ? 1 : 0;
  EXPECT_GE(found, 3940);
}

// Fifty megabytes of words are more than it holds.
TEST(LongWordCache, ForgetsWordsAndGoesOn) {
  LongWordCache cache;
  const auto word_of = [](int32_t i) { return std::to_string(i) + std::string(500, 'y'); };
  for (int32_t i = 0; i < 100'000; ++i) {
    cache.insert(word_of(i), hash64(word_of(i)), Ids{i});
    if (i % 1000 != 0) continue;
    const Ids ids = find(cache, word_of(i));
    ASSERT_TRUE(ids.empty() || ids == Ids{i});
  }
  size_t found = 0;
  for (int32_t i = 0; i < 100'000; ++i) {
    const Ids ids = find(cache, word_of(i));
    if (ids.empty()) continue;
    ASSERT_EQ(ids, Ids{i});
    ++found;
  }
  EXPECT_GT(found, 100U);
  EXPECT_LT(found, 20'000U);
}

}  // namespace
}  // namespace lmtrain
