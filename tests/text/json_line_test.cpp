#include "text/json_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/text.h"

namespace lmtrain {
namespace {

// What another implementation makes of the line; none: not JSON, or no string in the field.
std::optional<std::string> oracle(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("text") || !json.at("text").is_string())
    return std::nullopt;
  return json.at("text").get<std::string>();
}

void expect_like_oracle(JsonLineParser& parser, const std::string& line) {
  // Two things are decided otherwise here: numbers of any size are numbers, and a field given twice
  // is a problem.
  const JsonText result = parser.parse(line);
  if (result.problem.ends_with("2 times")) return;
  const std::optional<std::string> expected = oracle(line);
  if (result.kind == JsonText::Kind::kText) {
    ASSERT_TRUE(expected) << line;
    EXPECT_EQ(result.text, *expected) << line;
  } else {
    EXPECT_FALSE(expected) << result.problem << "\n" << line;
  }
}

TEST(JsonLine, ReadsWhatAnotherParserReads) {
  JsonLineParser parser("text");
  std::mt19937_64 random(5);
  const std::vector<std::string> parts = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          ":",
                                          "\"text\"",
                                          "\"a\"",
                                          "\"\"",
                                          "1",
                                          "-0.5",
                                          "1e5",
                                          "01",
                                          "-",
                                          "true",
                                          "false",
                                          "null",
                                          "nul",
                                          " ",
                                          "\t",
                                          "\"",
                                          "\\n\"",
                                          "\\u00e9",
                                          "\\u",
                                          "\\ud83d",
                                          "\\ude00",
                                          "\xC3\xA9",
                                          "\xC3",
                                          "\x01",
                                          "\\x",
                                          "\"text\":\"abc\"",
                                          "{\"text\":\"\\ud83d\\ude00 \\\\ \\/ \\b\\f\\r\\t\"}",
                                          "\"x\":[1,{}],"};
  int texts = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string line = i % 2 == 0 ? "{" : "";
    for (uint64_t left = random() % 8; left > 0; --left) line += parts[random() % parts.size()];
    if (i % 2 == 0) line += "}";
    expect_like_oracle(parser, line);
    if (parser.parse(line).kind == JsonText::Kind::kText) ++texts;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(texts, 500);
}

TEST(JsonLine, AnOuterKeyGivenTwiceIsAProblem) {
  JsonLineParser parser("a.b");
  for (const char* line : {R"({"a":{"b":"c"},"a":{"d":1}})", R"({"a":1,"a":{"b":"c"}})"})
    EXPECT_TRUE(parser.parse(line).problem.ends_with("2 times")) << line;
  // Elsewhere it means nothing.
  const char* other = R"({"a":{"b":"c","x":1,"x":2},"z":[{"a":{}},{"a":{}}],"z":0})";
  EXPECT_EQ(parser.parse(other).text, "c");
  EXPECT_EQ(parser.parse(R"({"a":{},"a":{},"a.b":"d"})").text, "d");
}

TEST(JsonLine, ReadsWhatAnotherParserWrites) {
  JsonLineParser parser("text");
  std::mt19937_64 random(6);
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (uint64_t left = random() % 40; left > 0; --left) {
      const char32_t points[] = {static_cast<char32_t>(random() % 0x80), '"', '\\', 0xE9, 0x20AC};
      const char32_t c = points[random() % 5];
      if (c < 0x80) {
        text += static_cast<char>(c);
      } else {
        text += c == 0xE9 ? "\xC3\xA9" : "\xF0\x9F\x98\x80";
      }
    }
    const nlohmann::json json = {{"a", {1, {{"text", "no"}}}}, {"text", text}, {"z", nullptr}};
    for (const bool ascii : {false, true}) {
      const std::string line = json.dump(-1, ' ', ascii);
      EXPECT_EQ(parser.parse(line).text, text) << line;
      for (size_t cut = 0; cut < line.size(); cut += 3)
        expect_like_oracle(parser, line.substr(0, cut));
      std::string flipped = line;
      const size_t offset = random() % line.size();
      flipped[offset] = static_cast<char>(flipped[offset] ^ (1 << (random() % 8)));
      expect_like_oracle(parser, flipped);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(JsonLine, ProblemsNameTheColumn) {
  JsonLineParser parser("text");
  const auto column = [&](const std::string& line) {
    const std::string problem = parser.parse(line).problem;
    const size_t at = problem.find("column ");
    return at == std::string::npos ? 0 : std::stoi(problem.substr(at + 7));
  };
  EXPECT_EQ(column("{\"text\" 5}"), 9);
  EXPECT_EQ(column("{\"text\": tru}"), 10);
  EXPECT_EQ(column("{\"text\": \"\xFF\"}"), 11);
  EXPECT_EQ(column("{\"text\": \"a\\ud800b\"}"), 12);
  EXPECT_EQ(column("{\"text\": \"a"), 12);
  EXPECT_EQ(column("{\"text\": \"a\"} {"), 15);
  EXPECT_EQ(column(""), 1);
}

}  // namespace
}  // namespace lmtrain
