#include "formats/strict_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::error_of;

std::string refusal(const std::string& text) {
  const JsonSource source{.kind = ErrorKind::kCheckpoint,
                          .origin = "file.json",
                          .advice = "write it again",
                          .max_depth = 3};
  std::string message = error_of(ErrorKind::kCheckpoint, [&] { parse_strict_json(text, source); });
  EXPECT_TRUE(message.starts_with("file.json: ") && message.ends_with("; write it again"))
      << message;
  return message;
}

TEST(StrictJson, ReadsJson) {
  const auto value = parse_strict_json(R"( {"a":[1,{"b":null},"x"],"c":{"a":true}} )", {});
  EXPECT_EQ(value["a"][0], 1);
  EXPECT_EQ(value["c"]["a"], true);
}

TEST(StrictJson, KeysTwiceInOneObject) {
  EXPECT_NE(refusal(R"({"a":1,"a":1})").find("\"a\""), std::string::npos);
  refusal(R"({"b":{"a":1,"c":{"a":2},"a":1}})");
  refusal(R"([{"a":1},{"a":1,"\u0061":1}])");
  // The same key in different objects is fine.
  parse_strict_json(R"([{"a":{"a":1}},{"a":[{"a":1},{"a":1}]}])", {});
}

TEST(StrictJson, DepthIsCountedBelowTheOutermost) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  const JsonSource source{ErrorKind::kData, "x", "", 3};
  EXPECT_EQ(parse_strict_json(nested(4), source).dump(), nested(4));
  EXPECT_NE(testing::error_of(ErrorKind::kData, [&] { parse_strict_json(nested(5), source); })
                .find("nested deeper than 3 levels"),
            std::string::npos);
}

TEST(StrictJson, WhatNlohmannLetsPass) {
  refusal(std::string("{}\0garbage", 10));
  refusal("\xEF\xBB\xBF{}");
  refusal("[[[[[]]]]]");
  refusal(std::string(500'000, '['));
  parse_strict_json("[[[[]]]]", {.max_depth = 3});
}

TEST(StrictJson, WhatIsNoJson) {
  for (const char* text :
       {"", "{", "{} {}", "nul", "{'a':1}", "[1,]", "1e999", "\"\xFF\"", "// x\n1"}) {
    refusal(text);
  }
  EXPECT_NE(refusal("{\"a\":x}").find("byte 5"), std::string::npos);
}

TEST(JsonNumber, WhatIsNotFiniteIsNull) {
  EXPECT_EQ(finite_or_null(0.1).dump(), "0.1");
  EXPECT_EQ(finite_or_null(NAN).dump(), "null");
  EXPECT_EQ(finite_or_null(-INFINITY).dump(), "null");
  EXPECT_EQ(finite_or_null(std::optional<double>()).dump(), "null");
  EXPECT_EQ(finite_or_null(std::optional(2.5)).dump(), "2.5");
}

TEST(JsonNumber, AnIntegerIsReadOnlyWhereItIsOneAndFits) {
  using Json = nlohmann::json;
  EXPECT_EQ(integer_in<int64_t>(Json(-5)), -5);
  EXPECT_EQ(integer_in<uint64_t>(Json(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(integer_in<int32_t>(Json(INT32_MIN)), INT32_MIN);
  for (const char* other :
       {"1e300", "1.5", "1.0", "9223372036854775808", "true", "null", "\"1\"", "[1]"})
    EXPECT_THROW(integer_in<int64_t>(Json::parse(other)), Json::type_error) << other;
  EXPECT_THROW(integer_in<uint32_t>(Json(-1)), Json::type_error);
  EXPECT_THROW(integer_in<int32_t>(Json(int64_t{1} << 31)), Json::type_error);
}

using nlohmann::json;

json parse(const std::string& text) {
  return parse_checked_json(text, {.origin = "a.json", .advice = "copy it again"});
}

TEST(CheckedJson, WhatIsWrittenIsReadAgain) {
  const json fields = {{"b", {1, 2, 3}}, {"a", "text"}, {"large", UINT64_MAX}, {"small", -5}};
  for (const int indent : {-1, 2}) EXPECT_EQ(parse(checked_json_text(fields, indent)), fields);
  const std::string canonical = fields.dump();
  EXPECT_EQ(json::parse(checked_json_text(fields)).at("checksum"),
            crc_to_text(crc32c(0, canonical.data(), canonical.size())));
}

TEST(CheckedJson, EveryBitCounts) {
  const json fields = {{"documents", 1234}, {"name", "x"}, {"list", {{0, 1}, {5, 2}}}};
  const std::string text = checked_json_text(fields);
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    try {
      EXPECT_EQ(parse(damaged), fields) << "bit " << bit << ": " << damaged;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
    }
  }
  for (size_t size = 0; size + 1 < text.size(); ++size)
    EXPECT_THROW(parse(text.substr(0, size)), Error) << size;
}

TEST(CheckedJson, SaysWhatIsWrong) {
  const auto message = [](const std::string& text) {
    return testing::error_of(ErrorKind::kData, [&] { parse(text); });
  };
  EXPECT_EQ(message("{}"), "a.json: the field \"checksum\" is missing; copy it again");
  EXPECT_EQ(message("{\"checksum\": 1}"), "a.json: checksum is no string; copy it again");
  EXPECT_EQ(message("[]"), "a.json: is no JSON object; copy it again");
  EXPECT_EQ(message("{\"a\":1,\"checksum\":\"00000000\"}").substr(0, 28),
            "a.json: its own checksum is ");
}

using testing::TemporaryFolder;

TEST(JsonLines, VisitsWholeLinesThatAreObjects) {
  const TemporaryFolder folder;
  const std::string text =
      "{\"step\":1}\n\nnonsense\n{\"step\":2}\r\n[3]\n{\"step\":4,\"step\":4}\n{\"step\":5}\n{"
      "\"step\":6}";
  testing::replace_file(folder / "file", text);
  std::vector<int> steps;
  std::vector<uint64_t> ends;
  for_each_json_line(folder / "file", [&](const nlohmann::json& line, uint64_t end) {
    steps.push_back(line["step"]);
    ends.push_back(end);
  });
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 5}));
  for (const uint64_t end : ends) EXPECT_EQ(text[end - 1], '\n');
}

TEST(JsonLines, VisitsTheLinesThatHoldAText) {
  const TemporaryFolder folder;
  const std::string text =
      "{\"a\":1,\"step\":1}\n{\"step\":2}\nx \"a\"\n{\"a\":[\"a\"],\"step\":4}\n\n"
      "{\"step\":5,\"a\":0}\n{\"a\":1,\"step\":6}";
  testing::replace_file(folder / "file", text);
  std::vector<int> steps;
  for_each_json_line_with(folder / "file", "\"a\"", [&](const nlohmann::json& line, uint64_t end) {
    steps.push_back(line["step"]);
    EXPECT_EQ(text[end - 1], '\n');
  });
  EXPECT_EQ(steps, (std::vector<int>{1, 4, 5}));
  for_each_json_line_with(folder / "none", "a", [](const nlohmann::json&, uint64_t) { FAIL(); });
}

TEST(JsonLines, ANumberIsThatOfItsKeyAlone) {
  const nlohmann::json line = {{"whole", 3}, {"real", 0.5}, {"null", nullptr}, {"text", "7"}};
  EXPECT_EQ(number_at(line, "whole"), 3.0);
  EXPECT_EQ(number_at(line, "real"), 0.5);
  for (const char* key : {"null", "text", "missing"}) EXPECT_EQ(number_at(line, key), std::nullopt);
}

TEST(JsonLines, MissingAndEmptyFilesHaveNoLines) {
  const TemporaryFolder folder;
  testing::replace_file(folder / "empty", "");
  const auto never = [](const nlohmann::json&, uint64_t) { FAIL(); };
  for_each_json_line(folder / "missing", never);
  for_each_json_line(folder / "empty", never);
  for_each_json_line_with(folder / "empty", "a", never);
  testing::error_of(ErrorKind::kData, [&] { for_each_json_line(folder.path(), never); });
}

}  // namespace

}  // namespace lmtrain
