#include "formats/checked_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/support.h"

namespace lmtrain {
namespace {

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

}  // namespace
}  // namespace lmtrain
