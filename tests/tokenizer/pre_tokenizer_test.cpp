#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

using Words = std::vector<std::string>;

PreTokenizerStep step(std::string_view pattern, bool removes = false, bool is_inverted = false) {
  PreTokenizerStep result;
  result.regex.emplace(pattern, "x");
  result.removes = removes;
  result.is_inverted = is_inverted;
  return result;
}

template <class... Steps>
Words words_of(std::string_view text, Steps... steps) {
  std::vector<PreTokenizerStep> list;
  (list.push_back(std::move(steps)), ...);
  const PreTokenizer pre_tokenizer(std::move(list));
  PreTokenizer::Scratch scratch;
  Words words;
  pre_tokenizer.split_in_batches(text, scratch, [&](const PreTokenizer::Batch& batch) {
    EXPECT_FALSE(batch.words.empty());
    for (const std::string_view word : batch.words) {
      EXPECT_LE(word.data() + word.size(), batch.end);
      words.emplace_back(word);
    }
  });
  Words one_by_one;
  pre_tokenizer.split(text, scratch, [&](std::string_view word) { one_by_one.emplace_back(word); });
  EXPECT_EQ(one_by_one, words);
  return words;
}

// Matches are kept or removed by a scanner's pattern as by any other.
TEST(PreTokenizer, BehaviourIsOfThePattern) {
  for (const char* digits : {"\\p{N}", "[\\p{N}]"}) {
    EXPECT_EQ(words_of("a1b", step(digits)), (Words{"a", "1", "b"}));
    EXPECT_EQ(words_of("a1b", step(digits, true)), (Words{"a", "b"}));
    EXPECT_EQ(words_of("a1b", step(digits, true, true)), Words{"1"});
    EXPECT_EQ(words_of("a1b", step(digits, false, true)), (Words{"a", "1", "b"}));
  }
}

// Each split has a prefix of its own, in memory that is used again.
TEST(PreTokenizer, WordsLieInOneTextPerBatch) {
  PreTokenizerStep prefix;
  prefix.adds_prefix_space = true;
  std::string text;
  Words expected;
  for (int i = 0; i < 700; ++i) {
    text += i % 3 == 0 ? "7" : i % 3 == 1 ? " b" : "c";
    if (i % 3 == 2) {
      expected.push_back(" bc");
    } else if (i % 3 == 0) {
      expected.push_back(" 7");
    }
  }
  EXPECT_EQ(words_of(text, step("\\p{N}"), std::move(prefix)), expected);
}

TEST(PreTokenizer, StepsCutTheSplitsOfTheOneBefore) {
  constexpr const char* kGpt2 =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(words_of("a   12", step("\\p{N}"), step(kGpt2)), (Words{"a", "   ", "1", "2"}));
  EXPECT_EQ(words_of("a   12", step(kGpt2)), (Words{"a", "  ", " 12"}));
  EXPECT_EQ(words_of("", step(kGpt2)), Words());
  EXPECT_EQ(words_of("whole text"), Words{"whole text"});
}

}  // namespace
}  // namespace lmtrain
