#include "base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace lmtrain {
namespace {

TEST(Text, TheMostSimilarWordsComeFirst) {
  const std::vector<std::string> words = {"hidden_size", "num_hidden_layers", "rope_theta",
                                          "head_dim"};
  EXPECT_EQ(most_similar_words("layers", words, 2),
            (std::vector<std::string>{"num_hidden_layers", "head_dim"}));
  EXPECT_EQ(most_similar_words("n_layers", words, 1),
            std::vector<std::string>{"num_hidden_layers"});
  EXPECT_EQ(most_similar_words("hid", words, 1), std::vector<std::string>{"hidden_size"});
  EXPECT_EQ(most_similar_words("x", words, 9).size(), 4U);
  EXPECT_EQ(most_similar_words("x", {}, 3), std::vector<std::string>());
}

TEST(Text, StrStreamsItsArguments) {
  EXPECT_EQ(str("step ", 3, " of ", 10L, ' ', 0.5), "step 3 of 10 0.5");
}

TEST(Text, Join) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "", "c"}, ", "), "a, , c");
}

TEST(Text, LowerCase) { EXPECT_EQ(lower_case("AbZ z\xC3\x84-9"), "abz z\xC3\x84-9"); }

TEST(Text, FirstLine) {
  EXPECT_EQ(first_line("one\ntwo\n"), "one");
  EXPECT_EQ(first_line("one"), "one");
  EXPECT_EQ(first_line("\ntwo"), "");
}

TEST(Text, ShellQuoted) {
  EXPECT_EQ(shell_quoted("/runs/a-1_b.c,d=e:f@g%+"), "/runs/a-1_b.c,d=e:f@g%+");
  EXPECT_EQ(shell_quoted("/my runs/$a"), "'/my runs/$a'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(Text, NearestWord) {
  const std::vector<std::string> words = {"lr", "betas", "weight_decay", "min_ratio"};
  EXPECT_EQ(nearest_word("weigth_decay", words), "weight_decay");
  EXPECT_EQ(nearest_word("weightdecay", words), "weight_decay");
  EXPECT_EQ(nearest_word("beta", words), "betas");
  EXPECT_EQ(nearest_word("l", words), "lr");
  EXPECT_EQ(nearest_word("min_ratio", words), "min_ratio");
  EXPECT_EQ(nearest_word("momentum", words), "");
  EXPECT_EQ(nearest_word("", words), "");
  EXPECT_EQ(nearest_word("anything", {}), "");
  // The first of equals.
  EXPECT_EQ(nearest_word("cat", {"bat", "rat"}), "bat");
}

TEST(Text, Printed) {
  EXPECT_EQ(printed("%.1f", 0.25), "0.2");
  EXPECT_EQ(printed("%.0f %%", 12.0), "12 %");
  EXPECT_EQ(printed("%.2f", -std::nan("")), "nan");
  // Longer than any buffer that was thought to be enough: 1e300 has 301 digits.
  const std::string digits = printed("%.0f", 1e300);
  EXPECT_EQ(digits.size(), 301U);
  EXPECT_EQ(std::stod(digits), 1e300);
  EXPECT_EQ(printed("%100.2f", 1.5), std::string(96, ' ') + "1.50");
}

TEST(Text, FormatCount) {
  const std::vector<std::pair<double, std::string>> table = {
      {0, "0"},          {7, "7"},          {999, "999"},       {1000, "1.00K"},
      {1234, "1.23K"},   {9994, "9.99K"},   {9996, "10.0K"},    {12'345, "12.3K"},
      {99'960, "100K"},  {999'400, "999K"}, {999'600, "1.00M"}, {1'234'567, "1.23M"},
      {20e6, "20.0M"},   {1.5e9, "1.50B"},  {3e12, "3.00T"},    {5e15, "5000T"},
      {-1234, "-1.23K"}, {0.25, "0.25"},    {12.5, "12.5"},
  };
  for (const auto& [count, text] : table) EXPECT_EQ(format_count(count), text);
}

TEST(Text, FormatBytes) {
  const std::vector<std::pair<uint64_t, std::string>> table = {
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1.0 KiB"},
      {1536, "1.5 KiB"},
      {1 << 20, "1.0 MiB"},
      {uint64_t{5} << 30, "5.0 GiB"},
      {uint64_t{3} << 40, "3.0 TiB"},
      {uint64_t{3} << 50, "3072.0 TiB"},
  };
  for (const auto& [bytes, text] : table) EXPECT_EQ(format_bytes(bytes), text);
}

TEST(Text, FormatDuration) {
  const std::vector<std::pair<double, std::string>> table = {
      {-3, "0s"},        {0.4, "0s"},       {45, "45s"},         {59.4, "59s"},
      {59.6, "1m00s"},   {185, "3m05s"},    {3599, "59m59s"},    {7620, "2h07m"},
      {86399, "23h59m"}, {97'200, "1d03h"}, {864'000, "10d00h"},
  };
  for (const auto& [seconds, text] : table) EXPECT_EQ(format_duration(seconds), text);
}

TEST(Text, ToHex) {
  EXPECT_EQ(to_hex(""), "");
  EXPECT_EQ(to_hex(std::string_view("\x00\x1F\xAb z", 5)), "001fab207a");
}

TEST(Text, UtcTimestamp) {
  std::string shape = utc_timestamp();
  for (char& c : shape) c = c >= '0' && c <= '9' ? '0' : c;
  EXPECT_EQ(shape, "0000-00-00T00:00:00.000Z");
  const std::chrono::system_clock::time_point epoch;
  EXPECT_EQ(utc_timestamp(epoch + std::chrono::milliseconds(86'400'250)),
            "1970-01-02T00:00:00.250Z");
}

TEST(Text, ShownAsLsShowsNames) {
  EXPECT_EQ(shown("plain name.txt \xC3\xA9 \xF0\x9F\x98\x80 \\"),
            "plain name.txt \xC3\xA9 \xF0\x9F\x98\x80 \\");
  EXPECT_EQ(shown("\x1B[2J\n\t\r"), "\\033[2J\\n\\t\\r");
  EXPECT_EQ(shown("two\nlines\t\x1B", true), "two\nlines\t\\033");
  EXPECT_EQ(shown("\xFF\x7F\xC2\x9B"), "\\377\\u007f\\u009b");
  EXPECT_EQ(shown("a\xE2\x80\xAEtxt.exe"), "a\\u202etxt.exe");
  EXPECT_EQ(shown(std::string("a\0b", 3)), "a\\000b");
  EXPECT_EQ(shown(std::filesystem::path("/a\nb")), "/a\\nb");
}

using Parts = std::vector<std::string>;

TEST(DottedKey, IsCutAtEachDot) {
  EXPECT_EQ(key_parts("optimizer.lr"), Parts({"optimizer", "lr"}));
  EXPECT_EQ(key_parts("text"), Parts({"text"}));
  EXPECT_EQ(key_parts(""), Parts({""}));
  EXPECT_EQ(key_parts(".a..b."), Parts({"", "a", "", "b", ""}));
}

TEST(QuotedList, EndsWithDotsWhereThereAreMore) {
  const std::vector<std::string> names = {"a", "b\n", "c"};
  EXPECT_EQ(quoted_list({}, 2), "");
  EXPECT_EQ(quoted_list({"a"}, 2), "\"a\"");
  EXPECT_EQ(quoted_list(names, 3), "\"a\", \"b\\n\", \"c\"");
  EXPECT_EQ(quoted_list(names, 2), "\"a\", \"b\\n\", ...");
}

}  // namespace

}  // namespace lmtrain
