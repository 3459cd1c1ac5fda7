#include "tokenizer/split_regex.h"

#include "base/text.h"
#include "base/utf8.h"
#include "prepare/folder.h"

namespace lmtrain {
namespace {

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  const SplitRegex regex(pattern, "x.json: /p");
  SplitRegex::Matcher matcher;
  SplitRegex::Match match{};
  std::vector<std::string> found;
  for (size_t from = 0; from < text.size() && regex.find(text, from, matcher, match);
       from = match.end)
    found.push_back(text.substr(match.begin, match.end - match.begin));
  return found;
}
using Found = std::vector<std::string>;

std::string refusal(const std::string& pattern) {
  return error_of(ErrorKind::kData, [&] { SplitRegex(pattern, "x.json: /p"); });
}

size_t number_of(const std::string& pattern) {
  const SplitRegex regex(pattern, "x.json: /p");
  SplitRegex::Matcher matcher;
  SplitRegex::Match match{};
  size_t count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    if (regex.find(text, 0, matcher, match)) ++count;
  }
  return count;
}

// The counts that `tokenizers` 0.23.3 gives, which are those of Unicode 16.
TEST(SplitRegex, HasThePropertiesOfUnicode16) {
  EXPECT_EQ(number_of("\\p{L}"), 141028U);
  EXPECT_EQ(number_of("\\p{N}"), 1911U);
  EXPECT_EQ(number_of("\\p{M}"), 2501U);
  EXPECT_EQ(number_of("\\p{P}"), 855U);
  EXPECT_EQ(number_of("\\p{S}"), 8514U);
  EXPECT_EQ(number_of("\\p{Lu}"), 1858U);
  EXPECT_EQ(number_of("\\d"), 760U);
  EXPECT_EQ(number_of("\\s"), 25U);
  EXPECT_EQ(number_of("\\S"), 0x110000U - 0x800U - 25U);
  EXPECT_EQ(number_of("[\\S]"), 0x110000U - 0x800U - 25U);
}

TEST(SplitRegex, ReadsOniguruma) {
  EXPECT_EQ(matches("^b", "a\nb"), Found{"b"});
  EXPECT_EQ(matches("\\v", "a\x0B\u0085"), Found{"\x0B"});
  EXPECT_EQ(matches("(?i:'s)", "'S '\u017F"), (Found{"'S", "'\u017F"}));
  EXPECT_EQ(matches("[a\\x41\\u00e9\\x{1F600}]", "A\u00e9a\U0001F600"),
            (Found{"A", "\u00e9", "a", "\U0001F600"}));
  EXPECT_EQ(matches("a{1,2}|{", "aaa{"), (Found{"aa", "a", "{"}));
  EXPECT_EQ(matches("[^\\s\\p{L}]+", "a!? b"), Found{"!?"});
  EXPECT_EQ(matches("a++b", "aab"), Found{"aab"});
}

// The inner class is written out; a hyphen at its edge is no range.
TEST(SplitRegex, AClassInAClassIsTheUnionOfBoth) {
  EXPECT_EQ(pcre2_pattern("[^(x|[.,!])]+", "x"), "[^(x|.,!)]+");
  EXPECT_EQ(pcre2_pattern("[a[-b][c-]d]", "x"), "[a\\-bc\\-d]");
  const SplitRegex regex("[^([a-c][+-])]+", "x");
  SplitRegex::Matcher matcher;
  SplitRegex::Match match{};
  ASSERT_TRUE(regex.find("a,-", 0, matcher, match));  // the comma lies between + and -
  EXPECT_EQ(match.begin, 1U);
  EXPECT_EQ(match.end, 2U);
}

TEST(SplitRegex, NamesWhatItRefuses) {
  for (const char* part :
       {"\\w",     "\\b",     "\\h",         "\\K",    "\\R",  "\\1",      "\\p{Han}", "\\p{Mn}",
        "\\xff",   "\\ud800", "(?m)",        "(?<n>",  "(*F",  "a{,2}",    "a{1,2}+",  "[[^a]]",
        "[a-[b]]", "[[a]-c]", "[[:alpha:]]", "[a&&b]", "[]a]", "[\\P{L}]", "a\\"}) {
    const std::string message = refusal(str("c|", part));
    expect_contains(message, "x.json: /p: ");
    expect_contains(message, "is not supported: ");
  }
  expect_contains(refusal("c|\\w"), "\"\\w\" at byte 2 of the regular expression \"c|\\w\"");
  for (const char* cut_off : {"\\x0", "[\\x0", "\\u004", "[a\\u00"})
    expect_contains(refusal(cut_off), "is not supported: it is no code point");
  expect_contains(refusal("(a"), "does not compile: missing closing parenthesis");
  expect_contains(refusal("[z-a]"), "does not compile");
  expect_contains(refusal("a*"), "matches the empty text");
}

// An expression that is exponential ends in an error, not in a hang.
TEST(SplitRegex, BacktrackingEnds) {
  const SplitRegex regex("(?:a+)+b|(?:a|aa)+c", "x.json: /p");
  SplitRegex::Matcher matcher;
  SplitRegex::Match match{};
  const std::string text(5000, 'a');
  const std::string message =
      error_of(ErrorKind::kData, [&] { regex.find(text, 0, matcher, match); });
  expect_contains(message, "x.json: /p: the regular expression");
  expect_contains(message, "cannot cut a text of 5000 bytes at byte 0");
}

}  // namespace
}  // namespace lmtrain
