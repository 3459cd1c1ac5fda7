#include "tokenizer/split_scanner.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "tokenizer/hard_text.h"
#include "tokenizer/split_patterns.h"

namespace lmtrain {
namespace {

// A scanner and the expression of the same pattern.
class Pair {
 public:
  explicit Pair(std::string_view pattern)
      : scanner_(SplitScanner::of(pattern).value()), regex_(pattern, "x") {}

  // Both cut the text alike.
  ::testing::AssertionResult agree_on(std::string_view text) {
    const auto expected = splits_by_regex(regex_, matcher_, text);
    const auto found = splits_by_scanner(scanner_, text);
    if (found == expected) return ::testing::AssertionSuccess();
    for (size_t i = 0;; ++i) {
      if (i < found.size() && i < expected.size() && found[i] == expected[i]) continue;
      const auto split = [&](const auto& splits) {
        return i < splits.size() ? hex(splits[i]) : "nothing";
      };
      return ::testing::AssertionFailure()
             << regex_.pattern() << ": split " << i << " is " << split(found) << "instead of "
             << split(expected) << "in " << hex(text);
    }
  }

 private:
  SplitScanner scanner_;
  SplitRegex regex_;
  SplitRegex::Matcher matcher_;
};

bool is_surrogate(char32_t c) { return c >= 0xD800 && c < 0xE000; }

// Characters of every kind that a pattern tells from another.
std::vector<std::string> kinds() {
  std::vector<std::string> all;
  for (const char32_t c :
       U"aAsStdmrRvVeElLx 1/!_'\t\n\r\u0085\u00A0\u3000\u017F\u01C5\u02B0\u30FC"
       U"\u4E2D\u0301\u0903\u20DD\u00B2\u0663\u2167\u20AC\uE000\uFFFD"
       U"\U0001F600\U0001D7D8\U00020000\U0010FFFF")
    append_utf8(all.emplace_back(), c);  // the last one is NUL
  return all;
}

// The counts of Unicode 16, as in HasThePropertiesOfUnicode16.
TEST(CharacterFlags, AreThoseOfUnicode16) {
  const CharacterFlags& flags = CharacterFlags::get();
  std::array<size_t, 8> counts{};
  for (char32_t c = 0; c < 0x110000; ++c) {
    for (size_t bit = 0; bit < 8; ++bit) counts[bit] += flags.of(c) >> bit & 1U;
    if (c < 128) {
      EXPECT_EQ(flags.of(c), CharacterFlags::of_ascii(static_cast<unsigned char>(c)));
    }
  }
  EXPECT_EQ(counts[0], 141028U);  // L
  EXPECT_EQ(counts[1], 1911U);    // N
  EXPECT_EQ(counts[2], 25U);      // white space
  EXPECT_EQ(counts[3], 2U);       // newlines
  EXPECT_EQ(counts[4], 2501U);    // M
  EXPECT_EQ(flags.of(0x01C5), CharacterFlags::kLetter | CharacterFlags::kUpper);
}

TEST(SplitScanner, AgreesOnEachCharacterAlone) {
  for (const std::string_view pattern : kKnownPatterns) {
    Pair pair(pattern);
    for (const std::string& kind : kinds()) EXPECT_TRUE(pair.agree_on(kind));
  }
}

// Every code point before and behind others.
TEST(SplitScanner, AgreesOnEveryCodePoint) {
  for (const size_t i : {0, 2, 5, 6}) {
    Pair pair(kKnownPatterns[i]);
    std::string text;
    for (char32_t c = 0; c < 0x110000; ++c) {
      const bool is_rare = c >= 0x40000 && (c >> 16) != 14;
      if (is_surrogate(c) || (is_rare && c % 251 != 0)) continue;
      for (const std::string_view next : {"a", "A", " ", "1", "!\n"}) {
        append_utf8(text, c);
        text += next;
      }
      if (c % 4096 != 4095) continue;
      ASSERT_TRUE(pair.agree_on(text));
      text.clear();
    }
  }
}

TEST(SplitScanner, AgreesOnAllPairsAndTriplesOfKinds) {
  const std::vector<std::string> all = kinds();
  for (const std::string_view pattern : kKnownPatterns) {
    Pair pair(pattern);
    const std::string behind(100, 'x');
    for (const std::string& first : all) {
      for (const std::string& second : all) {
        ASSERT_TRUE(pair.agree_on(first + second));
        ASSERT_TRUE(pair.agree_on(first + second + behind));
        for (const std::string& third : all) ASSERT_TRUE(pair.agree_on(first + second + third));
      }
    }
  }
}

TEST(SplitScanner, AgreesOnRandomText) {
  const std::vector<std::string> all = kinds();
  for (const std::string_view pattern : kKnownPatterns) {
    Pair pair(pattern);
    Random random(7);
    for (int i = 0; i < 4000; ++i) {
      std::string text;
      // Short runs: the same kind again and again.
      for (size_t length = random() % 30; length > 0; --length) {
        const std::string& kind = all[random() % all.size()];
        for (size_t count = random() % 3; count < 3; ++count) text += kind;
      }
      ASSERT_TRUE(pair.agree_on(text));
    }
  }
}

// The scanner looks at 64 bytes of ASCII at once, wherever they begin and a split ends.
TEST(SplitScanner, AgreesOnLongTextOfAscii) {
  const std::vector<std::string> units = {
      "a",    "s",    "A",    "S",  "ll",   "1",     "1234", " ",  "  ",  "   ", "\t",  "\n",
      "\n\n", "\r\n", "!",    "/",  "--",   "'",     "'s",   "'S", "'re", "'LL", ".\n", "/\n/",
      ");",   "word", "Word", " x", "\n  ", "\n \n", " \n ", "'t", "\v",  "\x7F"};
  for (const std::string_view pattern : kKnownPatterns) {
    Pair pair(pattern);
    Random random(11);
    for (int i = 0; i < 2000; ++i) {
      // A few units alone, so that each follows each often, in runs of any length.
      std::array<std::string, 5> some;
      for (std::string& unit : some) unit = units[random() % units.size()];
      std::string text;
      while (text.size() < 150) {
        const std::string& unit = some[random() % some.size()];
        for (size_t count = random() % 4; count < 4; ++count) text += unit;
        if (random() % 64 == 0) text += random() % 2 == 0 ? "\u00E9" : "\u3000";
      }
      ASSERT_TRUE(pair.agree_on(text));
    }
  }
}

// Vectors have 16 bytes.
TEST(SplitScanner, AgreesOnRunsOfAnyLength) {
  for (const std::string_view pattern : kKnownPatterns) {
    Pair pair(pattern);
    for (const char* unit :
         {"a", "A", " ", "\n", " \n", "1", "!", "'", "\u00E9", "\u4E2D", "\u0301", "Aa"}) {
      std::string run;
      for (int length = 0; length < 40; ++length, run += unit) {
        for (const char* end :
             {"", "a", "A", "\u00E9", " ", "\n", "\n ", "'s", "'S", "1", "!", "/"}) {
          ASSERT_TRUE(pair.agree_on(run + end));
          ASSERT_TRUE(
              pair.agree_on(run + end + "'s a word and more words than one window holds, so"));
          ASSERT_TRUE(pair.agree_on(end + run));
        }
      }
    }
  }
}

TEST(SplitScanner, AgreesOnContractions) {
  std::vector<std::string> all;
  for (const char* word : {"'s", "'S", "'t", "'re", "'Re", "'rE", "'VE", "'m", "'ll", "'lL", "'d",
                           "'\u017F", "'l", "'r", "''s", "'"}) {
    for (const char* before : {"", "a", "A", " ", "1", "!", "\u4E2D", "\u0301", "\n"}) {
      for (const char* after : {"", "a", "A", " ", "1", "s", "'s"})
        all.push_back(std::string(before) + word + after);
    }
  }
  for (const std::string_view pattern : kKnownPatterns) {
    Pair pair(pattern);
    for (const std::string& text : all) {
      EXPECT_TRUE(pair.agree_on(text));
      EXPECT_TRUE(
          pair.agree_on(text + " and words that fill the window in which it looks for them"));
    }
  }
}

TEST(SplitScanner, GivesAsManySplitsAsThereIsRoomFor) {
  const std::string text =
      "one two, 345 six\n\n  seven's\u00E9 and eight nine ten eleven twelve thirteen 14 15 16";
  for (const std::string_view pattern : kKnownPatterns) {
    const SplitScanner scanner = SplitScanner::of(pattern).value();
    const auto all = splits_by_scanner(scanner, text);
    for (const size_t room : {1, 2, 3, 5}) EXPECT_EQ(splits_by_scanner(scanner, text, room), all);
  }
}

// Anything else is left to SplitRegex.
TEST(SplitScanner, KnowsNoOtherPattern) {
  const std::string llama(kKnownPatterns[2]);
  for (const std::string& pattern :
       {std::string(), std::string("\\s+"), llama + "|a", llama.substr(1), "a|" + llama,
        llama.substr(0, llama.size() - 4), std::string(R"(\p{N}{1,4})"),
        std::string(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|)") + std::string(kKnownPatterns[6]),
        // Numbers that take a space, in words that take any character.
        std::string(R"( ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+)")})
    EXPECT_FALSE(SplitScanner::of(pattern)) << pattern;
}

}  // namespace
}  // namespace lmtrain
