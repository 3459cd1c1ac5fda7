#include "formats/strict_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace lmtrain
