#include "tokenizer/byte_bpe_trainer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/trained_words.h"

namespace lmtrain {
namespace {

using Ids = std::vector<int32_t>;

std::vector<std::string> tokens_of(const BpeModel& model) {
  std::vector<std::string> tokens;
  for (const auto& token : model.tokens) tokens.push_back(token.value());
  return tokens;
}

std::vector<std::string> merged_tokens(const WordCounts& words, int64_t num_merges) {
  const std::vector<std::string> tokens = tokens_of(train_byte_bpe(words, 256 + num_merges));
  return {tokens.begin() + 256, tokens.end()};
}

TEST(ByteBpeTrainer, TheBytesComeFirstInTheOrderOfTheirCharacters) {
  const std::vector<std::string> tokens = tokens_of(train_byte_bpe({{"ab", 1}}, 256));
  ASSERT_EQ(tokens.size(), 256U);
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), 256U);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    EXPECT_LT(token_of_byte(static_cast<unsigned char>(tokens[i][0])),
              token_of_byte(static_cast<unsigned char>(tokens[i + 1][0])));
  }
  EXPECT_EQ(tokens.front(), "!");
}

TEST(ByteBpeTrainer, TheMostFrequentPairIsMergedFirst) {
  EXPECT_EQ(merged_tokens({{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}}, 6),
            (std::vector<std::string>{"es", "est", "lo", "low", "ew", "new"}));
}

// "b" has a lower id than "c", and "A" than both.
TEST(ByteBpeTrainer, TheLowerIdsComeFirstAmongEqualCounts) {
  EXPECT_EQ(merged_tokens({{"cb", 1}, {"bc", 1}, {"cA", 1}, {"Ab", 1}}, 4),
            (std::vector<std::string>{"Ab", "bc", "cA", "cb"}));
}

TEST(ByteBpeTrainer, OverlappingPairsCountEach) {
  EXPECT_EQ(merged_tokens({{"aaa", 2}, {"xy", 3}}, 1), (std::vector<std::string>{"aa"}));
}

TEST(ByteBpeTrainer, ItEndsWhenEveryWordIsAToken) {
  const BpeModel model = train_byte_bpe({{"ab", 1}, {"abc", 2}, {"x", 3}}, 1000);
  EXPECT_EQ(model.tokens.size(), 258U);
  EXPECT_EQ(model.merges.size(), 2U);
}

// The definition, slowly: all pairs are counted anew for every merge.
void expect_definition(const WordCounts& words, size_t num_merges) {
  const BpeModel model = train_byte_bpe(words, 256 + static_cast<int64_t>(num_merges));
  ASSERT_EQ(model.merges.size(), num_merges);
  std::map<std::string, int32_t> byte_ids;
  for (int32_t id = 0; id < 256; ++id) byte_ids[*model.tokens[static_cast<size_t>(id)]] = id;
  std::vector<std::pair<Ids, int64_t>> splits;
  for (const auto& [text, count] : words) {
    splits.push_back({{}, count});
    for (const char c : text) splits.back().first.push_back(byte_ids.at(std::string(1, c)));
  }
  for (const BpeModel::Merge& merge : model.merges) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const auto& [ids, count] : splits)
      for (size_t i = 0; i + 1 < ids.size(); ++i) counts[{ids[i], ids[i + 1]}] += count;
    const auto best =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          return a.second != b.second ? a.second < b.second : a.first > b.first;
        });
    ASSERT_EQ(best->first, std::make_pair(merge.left, merge.right));
    for (auto& [ids, count] : splits) {
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
        ids[i] = merge.joined;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  const std::vector<std::string> tokens = tokens_of(model);
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), 256 + num_merges)
      << "each token has one merge";
}

TEST(ByteBpeTrainer, WordsOfManyScriptsGiveTheMergesOfTheLibrary) {
  for (const GoldenVocabulary& golden : golden_vocabularies()) {
    std::vector<std::pair<int32_t, int32_t>> merges;
    for (const BpeModel::Merge& merge : train_byte_bpe(golden.words, 256 + 60).merges)
      merges.emplace_back(merge.left, merge.right);
    EXPECT_EQ(merges, golden.byte_merges) << golden.name;
  }
}

TEST(ByteBpeTrainer, WorkIsLinearForWordsOfAnyLength) {
  for (const WordsOfOneLength& text : words_of_all_lengths(60'000)) {
    uint64_t work = 0;
    const BpeModel model = train_byte_bpe(text.words, 256 + 1000, &work);
    EXPECT_GT(model.merges.size(), 3U) << text.name;
    EXPECT_GT(work, 0U) << text.name;
    EXPECT_LT(work, 6 * text.num_bytes) << text.name;
  }
}

TEST(ByteBpeTrainer, GivesWhatCountingAnewGives) {
  std::mt19937_64 random(4);
  for (const unsigned num_letters : {2U, 3U, 26U, 256U}) {
    std::map<std::string, int64_t> counts;
    for (int i = 0; i < 100; ++i) {
      std::string word;
      for (size_t length = 1 + random() % 14; length > 0; --length)
        word +=
            static_cast<char>(num_letters == 256 ? random() % 256 : 'a' + random() % num_letters);
      counts[word] += static_cast<int64_t>(1 + random() % 9);
    }
    expect_definition({counts.begin(), counts.end()}, 80);
  }
}

}  // namespace
}  // namespace lmtrain
