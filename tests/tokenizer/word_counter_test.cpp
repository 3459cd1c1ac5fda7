#include "tokenizer/word_counter.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace lmtrain {
namespace {

WordCounts words_of(std::string_view text) {
  WordCounter counter;
  counter.add(text);
  return counter.sorted();
}

TEST(WordCounter, SpacesBeginAWordAndScriptsEndIt) {
  EXPECT_EQ(words_of("def f(x):\n    return  x1\n"), WordCounts({{"    return", 1},
                                                                 {"  x", 1},
                                                                 {" f", 1},
                                                                 {"(", 1},
                                                                 {"):\n", 1},
                                                                 {"1\n", 1},
                                                                 {"def", 1},
                                                                 {"x", 1}}));
  EXPECT_EQ(words_of("a a a  "), WordCounts({{"  ", 1}, {" a", 2}, {"a", 1}}));
  EXPECT_EQ(words_of(""), WordCounts());
  EXPECT_EQ(words_of("\t\t\r\n"), WordCounts({{"\t\t\r\n", 1}}));
}

TEST(WordCounter, ScriptsDoNotMix) {
  EXPECT_EQ(words_of("ab\xD0\xB6\xD0\xB6\xE6\x9D\xB1\xE3\x81\x82"),
            WordCounts({{"ab", 1}, {"\xD0\xB6\xD0\xB6", 1}, {"\xE6\x9D\xB1\xE3\x81\x82", 1}}));
  EXPECT_EQ(words_of("e\xCC\x81t"), WordCounts({{"e\xCC\x81t", 1}})) << "a combining mark";
  EXPECT_EQ(words_of("\xE0\xA4\x95\xE0\xA6\x95"),
            WordCounts({{"\xE0\xA4\x95", 1}, {"\xE0\xA6\x95", 1}}))
      << "Devanagari, Bengali";
}

TEST(WordCounter, WhatNoPieceCanHoldEndsAWord) {
  EXPECT_EQ(words_of(std::string_view("ab\0cd", 5)), WordCounts({{"ab", 1}, {"cd", 1}}));
  EXPECT_EQ(words_of("ab\xE2\x96\x81"
                     "cd\xFF"
                     "ef"),
            WordCounts({{"ab", 1}, {"cd", 1}, {"ef", 1}}));
}

TEST(WordCounter, LongRunsAreCut) {
  for (const std::string character : {"a", " ", "\xCC\x81"}) {
    std::string text;
    for (int i = 0; i < 10'000; ++i) text += character;
    size_t bytes = 0;
    for (const auto& [word, count] : words_of(text)) {
      EXPECT_LE(word.size(), 260U);
      bytes += word.size() * static_cast<size_t>(count);
    }
    EXPECT_EQ(bytes, text.size());
  }
}

// Any bytes, words that begin alike, and enough of them for the table to grow; in two counters.
TEST(WordCounter, CountsAsAMapDoes) {
  std::mt19937_64 random(3);
  std::map<std::string, int64_t> expected;
  WordCounter counter;
  WordCounter other;
  for (int i = 0; i < 50'000; ++i) {
    std::string word(random() % 4 == 0 ? 9 : 0, 'x');
    for (size_t size = 1 + random() % 4; size > 0; --size)
      word += static_cast<char>(random() % (i % 2 == 0 ? 256 : 4));
    const auto count = static_cast<int64_t>(1 + random() % 3);
    expected[word] += count;
    (i % 3 == 0 ? other : counter).add_word(word, count);
  }
  const std::string long_word(3'000'000, 'y');
  other.add_word(long_word);
  expected[long_word] = 1;
  counter.add(other);
  EXPECT_EQ(counter.sorted(), WordCounts(expected.begin(), expected.end()));
}

TEST(WordCounter, ScriptTable) {
  EXPECT_EQ(script_of('a').script, Script::kLatin);
  EXPECT_EQ(script_of('_').script, Script::kCommon);
  EXPECT_EQ(script_of('7').script, Script::kCommon);
  EXPECT_EQ(script_of(' ').script, Script::kSpace);
  EXPECT_EQ(script_of(0).script, Script::kCommon);
  EXPECT_EQ(script_of(0xD7).script, Script::kCommon);
  EXPECT_EQ(script_of(0x3B1).script, Script::kGreek);
  EXPECT_EQ(script_of(0xAC00).script, Script::kHangul);
  EXPECT_EQ(script_of(0x1F600).script, Script::kCommon);
  EXPECT_EQ(script_of(0x2F800).script, Script::kHan);
  EXPECT_EQ(script_of(0x10FFFF).script, Script::kCommon);
}

}  // namespace
}  // namespace lmtrain
