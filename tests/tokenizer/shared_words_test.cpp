#include "tokenizer/shared_words.h"

#include <gtest/gtest.h>

#include <string>

#include "tokenizer/word_cache.h"

namespace lmtrain {
namespace {

void insert(WordCache& cache, const std::string& word, int32_t id) {
  const std::vector<int32_t> ids(static_cast<size_t>(1 + id % 8), id);
  cache.insert(word, cache.key(word, word.data() + word.size()), ids);
}

int32_t find(WordCache& cache, const std::string& word) {
  std::array<int32_t, WordCache::kMostIds> ids;
  const auto key = cache.key(word, word.data() + word.size());
  const size_t count = cache.find(word, key, ids.data());
  if (count == 0) return -1;
  EXPECT_EQ(count, static_cast<size_t>(1 + ids[0] % 8));
  return ids[0];
}

std::string word(int number) {
  return std::to_string(number) + std::string(static_cast<size_t>(number % 24), 'x');
}

TEST(SharedWords, TellEachCacheWhatOthersHaveLearned) {
  SharedWords words;
  std::array<WordCache, 3> caches;
  for (WordCache& cache : caches) cache.exchange(words);
  for (WordCache& cache : caches) cache.exchange(words);
  constexpr int kCount = 3000;
  for (int i = 0; i < kCount; ++i) {
    insert(caches[static_cast<size_t>(i % 2)], word(i), i);
    if (i % 10 == 0) caches[static_cast<size_t>(i / 10 % 2)].exchange(words);
  }
  for (WordCache& cache : caches) cache.exchange(words);
  for (WordCache& cache : caches) cache.exchange(words);
  int known = 0;
  for (int i = 0; i < kCount; ++i) {
    const int32_t id = find(caches[2], word(i));
    EXPECT_TRUE(id == i || id == -1);
    if (id == i) ++known;
  }
  // Some were never published, and tables of words forget some.
  EXPECT_GT(known, kCount / 2);
}

TEST(SharedWords, AreNotKeptForOneUser) {
  SharedWords words;
  WordCache cache;
  for (int i = 0; i < 1000; ++i) {
    cache.exchange(words);
    insert(cache, word(i), i);
  }
  size_t heard = 0;
  EXPECT_TRUE(words.new_chunks(nullptr, heard).empty());
}

TEST(SharedWords, AreBounded) {
  SharedWords words;
  const SharedWords::Chunk chunk(1 << 15);
  for (int i = 0; i < 100; ++i) words.publish(&words, chunk);
  size_t heard = 0;
  EXPECT_LT(words.new_chunks(nullptr, heard).size(), 10U);
  EXPECT_TRUE(words.new_chunks(nullptr, heard).empty());
}

}  // namespace
}  // namespace lmtrain
