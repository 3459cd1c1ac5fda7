#include "tokenizer/word_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace lmtrain {
namespace {

using Ids = std::vector<int32_t>;

// The word is looked up in memory that ends with it, or goes on.
Ids find(WordCache& cache, const std::string& word, bool goes_on = false) {
  const std::string memory = goes_on ? word + std::string(16, '\xFF') : word;
  const std::string_view view = std::string_view(memory).substr(0, word.size());
  std::array<int32_t, WordCache::kMostIds> ids;
  const auto key = cache.key(view, memory.data() + memory.size());
  const size_t count = cache.find(view, key, ids.data());
  return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count)};
}

void insert(WordCache& cache, const std::string& word, const Ids& ids) {
  cache.insert(word, cache.key(word, word.data() + word.size()), ids);
}

TEST(WordCache, GivesTheIdsOfAWord) {
  WordCache cache;
  for (size_t size = 1; size <= WordCache::kLongestWord; ++size) {
    for (size_t count = 1; count <= WordCache::kMostIds; ++count) {
      const std::string word = std::string(size - 1, 'a') + static_cast<char>('0' + count);
      const Ids ids(count, static_cast<int32_t>(100 * size + count));
      EXPECT_EQ(find(cache, word), Ids());
      insert(cache, word, ids);
      EXPECT_EQ(find(cache, word), ids) << word;
      EXPECT_EQ(find(cache, word, /*goes_on=*/true), ids) << word;
    }
  }
}

TEST(WordCache, TellsWordsApartByTheirSize) {
  WordCache cache;
  for (size_t size = 1; size <= WordCache::kLongestWord; ++size)
    insert(cache, std::string(size, '\0'), {static_cast<int32_t>(size)});
  for (size_t size = 1; size <= WordCache::kLongestWord; ++size)
    EXPECT_EQ(find(cache, std::string(size, '\0')), Ids{static_cast<int32_t>(size)});
}

TEST(WordCache, KeepsNoWordWithoutIdsOrWithTooMany) {
  WordCache cache;
  insert(cache, "a", {});
  insert(cache, "b", Ids(WordCache::kMostIds + 1, 7));
  EXPECT_EQ(find(cache, "a"), Ids());
  EXPECT_EQ(find(cache, "b"), Ids());
}

// Words that push each other out would be encoded again each time.
TEST(WordCache, KeepsWordsWhereItsTablesHaveRoom) {
  WordCache cache;
  std::vector<std::string> words;
  for (int32_t i = 0; i < 100'000; ++i) words.push_back("w" + std::to_string(i));
  for (int32_t i = 0; i < 8'000; ++i) words.push_back(std::to_string(i) + std::string(20, 'z'));
  // Short words with too many ids for a line of two words.
  for (int32_t i = 0; i < 8'000; ++i) words.push_back("m" + std::to_string(i));
  size_t missing = 0;
  for (int round = 0; round < 3; ++round) {
    missing = 0;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      const Ids ids(word.front() == 'm' ? 6 : 2, static_cast<int32_t>(i));
      const Ids found = find(cache, word);
      if (found == ids) continue;
      ASSERT_EQ(found, Ids());
      insert(cache, word, ids);
      ++missing;
    }
  }
  EXPECT_LE(missing, 20U);
}

// A million words are more than the tables hold: some are forgotten, none has ids of another, and
// the one that is used all the time stays.
TEST(WordCache, ForgetsWordsThatAreNotUsed) {
  WordCache cache;
  insert(cache, " the", {1, 2});
  for (int32_t i = 0; i < 1'000'000; ++i) {
    insert(cache, "w" + std::to_string(i), {i, i + 1});
    ASSERT_EQ(find(cache, " the"), (Ids{1, 2})) << i;
  }
  size_t found = 0;
  for (int32_t i = 0; i < 1'000'000; ++i) {
    const Ids ids = find(cache, "w" + std::to_string(i));
    if (ids.empty()) continue;
    ASSERT_EQ(ids, (Ids{i, i + 1}));
    ++found;
  }
  EXPECT_GT(found, 200'000U);
  EXPECT_LE(found, size_t{1} << 18);
}

}  // namespace
}  // namespace lmtrain
