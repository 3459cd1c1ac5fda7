#include "config/json_reader.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lmtrain {
namespace {

std::string syntax_error(const std::string& text) {
  const JsonReadResult result = read_json_file_text(text, "f");
  EXPECT_FALSE(result.root.has_value()) << text;
  return result.problems.empty() ? "" : result.problems.back();
}

TEST(JsonReader, ReadsWhatNlohmannReads) {
  for (const char* text :
       {"null", "true", "[]", "{}",
        " [1, -2.5e3, \"a\\n\\u00e9\\ud83d\\ude00\\\\/\", {\"b\": [[]]}]",
        "\"h\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"", "0", "-0.0", "1E+2", "{\"\": 1}"}) {
    const JsonReadResult result = read_json_file_text(text, "f");
    ASSERT_TRUE(result.root) << text << join(result.problems, "\n");
    EXPECT_EQ(to_json(*result.root), nlohmann::ordered_json::parse(text)) << text;
  }
}

TEST(JsonReader, EveryValueKnowsItsLine) {
  const JsonReadResult result =
      read_json_file_text("{ // one\n\"a\": /* two\nthree */ 1,\r\n\"b\":\n[\n2]}", "f");
  ASSERT_TRUE(result.root);
  EXPECT_EQ(result.root->where, "f:1");
  EXPECT_EQ(result.root->find("a")->where, "f:3");
  EXPECT_EQ(result.root->members[1].key_where, "f:4");
  EXPECT_EQ(result.root->find("b")->where, "f:5");
  EXPECT_EQ(result.root->find("b")->items[0].where, "f:6");
}

TEST(JsonReader, IntegersMayBeWrittenAsFloats) {
  const auto integer = [](const char* text) { return read_json_argument(text, "f").root->integer; };
  EXPECT_EQ(integer("1.0"), 1);
  EXPECT_EQ(integer("1e6"), 1'000'000);
  EXPECT_EQ(integer("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(integer("9223372036854775808"), std::nullopt);
  EXPECT_EQ(integer("0.5"), std::nullopt);
  EXPECT_EQ(integer("1e999"), std::nullopt);
}

TEST(JsonReader, SyntaxErrorsNameLineAndColumn) {
  const std::pair<std::string, std::string> kCases[] = {
      {"", "f:1:1: is empty"},
      {"  \n // only a comment", "f:2:19: is empty"},
      {"{\n  \"a\": 1,\n}", "f:3:1: a comma before \"}\" is not allowed"},
      {"[1,]", "f:1:4: a comma before \"]\""},
      {"{\"a\" 1}", "f:1:6: expected \":\" after key \"a\", found \"1\""},
      {"{\"a\": 1 \"b\": 2}", "f:1:9: expected \",\" or \"}\", found '\"'"},
      {"{a: 1}", "f:1:2: expected a key in double quotes, found \"a\""},
      {"{\"a\":\n", "f:2:1: expected a value, found the end"},
      {"[1", "f:1:3: expected \",\" or \"]\", found the end, in the array that begins at f:1"},
      {"{} {}", "f:1:4: expected the end after the JSON value, found \"{\""},
      {"[tru]", "f:1:2: \"tru\" is not a JSON value"},
      {"[NaN]", "f:1:2: \"NaN\" is not a JSON value"},
      {"['a']", "f:1:2: expected a value, found \"'\""},
      {"[01]", "f:1:2: a number does not begin with 0"},
      {"[1.]", "f:1:4: expected a digit after \".\""},
      {"[-]", "f:1:3: expected a digit after \"-\""},
      {"[1e]", "f:1:4: expected a digit in the exponent"},
      {"[+1]", "f:1:2: expected a value, found \"+\""},
      {"\"abc", "f:1: a string is not closed"},
      {"\"abc\n\"", "f:1: a string is not closed on its line"},
      {"\"a\tb\"", "f:1:3: byte 0x09 in a string"},
      {"\"\\x\"", "f:1:3: unknown escape"},
      {"\"\\u12g4\"", "f:1:4: \\u needs four hexadecimal digits"},
      {"\"\\ud800\"", "f:1:8: half of a surrogate pair"},
      {"\"\\udc00\"", "f:1:8: half of a surrogate pair"},
      {"\"\\u0000\"", "f:1:8: a string cannot hold the character 0"},
      {"/* open", "f:1: a /* comment is not closed"},
      {"/", "f:1:1: expected a value, found \"/\""},
      {"\xEF\xBB\xBF{}", "f:1:1: begins with a byte order mark"},
      {std::string("\xFF\xFE{\0", 4), "f:1:1: is UTF-16"},
      {"\"\xFF\"", "f:1:2: byte 0xFF is not UTF-8"},
      {"\"\xC0\x80\"", "f:1:2: byte 0xC0 is not UTF-8"},      // overlong
      {"\"\xED\xA0\x80\"", "f:1:2: byte 0xED is not UTF-8"},  // surrogate
      {"\"\xF4\x90\x80\x80\"", "f:1:2: byte 0xF4 is not UTF-8"},
      {"\"\xE2\x82", "f:1:2: byte 0xE2 is not UTF-8"},
      {std::string("{\0}", 3), "f:1:2: expected a key in double quotes, found byte 0x00"},
  };
  for (const auto& [text, expected] : kCases) {
    EXPECT_TRUE(syntax_error(text).starts_with(expected)) << syntax_error(text);
  }
}

TEST(JsonReader, NestingIsCapped) {
  EXPECT_NE(syntax_error(std::string(1'000'000, '[')).find("nested deeper than 64"),
            std::string::npos);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_NE(syntax_error(objects).find("nested deeper than 64"), std::string::npos);
}

TEST(JsonReader, DuplicateKeysAreAllNamed) {
  const JsonReadResult result =
      read_json_file_text("{\"a\": [{\"b\": 1,\n\"b\": 2}], \"a\": 3}", "f");
  ASSERT_TRUE(result.root);
  ASSERT_EQ(result.problems.size(), 2U);
  EXPECT_TRUE(result.problems[0].starts_with("f:2: /a/0/b: key stands twice"))
      << result.problems[0];
  EXPECT_TRUE(
      result.problems[1].starts_with("f:2: /a: key stands twice in one object, first at f:1"))
      << result.problems[1];
}

TEST(JsonReader, LongValuesAreCutInMessages) {
  const std::string text = "\"" + std::string(300, 'x') + "\"";
  EXPECT_EQ(quote_json(*read_json_argument(text, "f").root).size(), 80U);
  std::string accents = "\"";
  for (int i = 0; i < 100; ++i) accents += "\xC3\xA9";
  const std::string cut = quote_json(*read_json_argument(accents + "\"", "f").root);
  EXPECT_NO_THROW(nlohmann::json(cut).dump()) << "cut inside a character";
}

}  // namespace
}  // namespace lmtrain
