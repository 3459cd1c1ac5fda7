// Headers made to mislead: each must be refused, quickly, with the file and the tensor or byte
// named.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/error.h"
#include "base/support.h"
#include "base/text.h"
#include "formats/safetensors.h"
#include "formats/safetensors_support.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::safetensors_bytes;

std::string refusal(const std::string& file) {
  std::map<std::string, std::string> metadata;
  std::string message =
      error_of(ErrorKind::kData, [&] { parse_safetensors(file, "model.safetensors", metadata); });
  EXPECT_TRUE(message.starts_with("model.safetensors: ")) << message;
  EXPECT_LT(message.size(), 1000U);
  return message;
}

void expect_refused(const std::string& header, const std::string& data, const std::string& why) {
  const std::string message = refusal(safetensors_bytes(header, data));
  EXPECT_NE(message.find(why), std::string::npos) << message << "\n" << header.substr(0, 200);
}

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "U8") {
  return str("\"", name, R"(":{"dtype":")", dtype, R"(","shape":[)", shape, R"(],"data_offsets":[)",
             offsets, "]}");
}

std::string header_of(const std::vector<std::string>& entries) {
  return str("{", join(entries, ","), "}");
}

// The limit is for a sanitized build on a busy machine; that parsing ends at the first lie shows in
// the message.
void expect_refused_fast(const std::string& file, const std::string& why) {
  const auto start = std::chrono::steady_clock::now();
  const std::string message = refusal(file);
  EXPECT_NE(message.find(why), std::string::npos) << message;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(SafetensorsAttack, HeaderSize) {
  for (const size_t size : {0U, 1U, 7U}) {
    EXPECT_NE(refusal(std::string(size, '\0')).find("fewer than the 8"), std::string::npos);
  }
  // All that follow announce more than there is.
  for (const uint64_t size : {uint64_t{3}, uint64_t{100'000'000}}) {
    std::string file = safetensors_bytes("{}", "");
    std::memcpy(file.data(), &size, sizeof size);
    EXPECT_NE(refusal(file).find("ends past"), std::string::npos);
  }
  for (const uint64_t size :
       {uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}}) {
    std::string file = safetensors_bytes("{}", "");
    std::memcpy(file.data(), &size, sizeof size);
    EXPECT_NE(refusal(file).find("above the limit"), std::string::npos);
  }
}

TEST(SafetensorsAttack, MillionsOfEntriesOnTheSameBytesFailFast) {
  std::string header = "{";
  for (int i = 0; header.size() < 99'000'000; ++i) {
    if (i > 0) header += ',';
    header += entry(std::to_string(i), "2,2", "0,16", "F32");
  }
  header += '}';
  const std::string file = safetensors_bytes(header, std::string(16, 'x'));
  expect_refused_fast(file, "tensor \"1\" overlaps");
}

constexpr size_t kLong = 50'000'000;

TEST(SafetensorsAttack, EndlessShapeNameAndNestingFailFast) {
  std::string ones = "1";
  while (ones.size() < kLong) ones += ",1,1,1,1,1,1,1,1";
  expect_refused_fast(safetensors_bytes(header_of({entry("a", ones, "0,1")}), "x"),
                      "more than 64 dimensions");
  const std::string name(kLong, 'n');
  expect_refused_fast(safetensors_bytes(header_of({entry(name, "3", "0,1")}), "x"), "nnn...\"");
  const std::string brackets(kLong, '[');
  for (const char* before : {"", "{\"a\":", "{\"a\":{\"shape\":[", "{\"__metadata__\":{\"a\":"}) {
    expect_refused_fast(safetensors_bytes(before + brackets, ""), "");
  }
  std::string braces;
  while (braces.size() < kLong) braces += "{\"a\":";
  expect_refused_fast(safetensors_bytes(braces, ""), "unknown key");
}

TEST(SafetensorsAttack, ShapesThatOverflow) {
  for (const char* shape :
       {"2,18446744073709551614", "2,9223372036854775807", "9223372036854775808",
        "4294967296,4294967296", "0,9223372036854775807,9223372036854775807",
        "9223372036854775807,2,0", "18446744073709551616"}) {
    for (const char* offsets : {"0,0", "0,16"}) {
      expect_refused(header_of({entry("a", shape, offsets, "F32")}), std::string(16, 'x'), "\"a\"");
    }
  }
}

TEST(SafetensorsAttack, HolesOverlapsAndWrongEnds) {
  expect_refused(header_of({entry("a", "2", "0,2")}), "abc", "end at byte 2");
  expect_refused(header_of({entry("a", "2", "1,3")}), "abc", "begins at byte 1");
  expect_refused(header_of({entry("a", "1", "0,1"), entry("b", "1", "2,3")}), "abc", "\"b\"");
  expect_refused(header_of({entry("a", "2", "0,2"), entry("b", "2", "1,3")}), "abc", "overlaps");
  expect_refused(header_of({entry("a", "2", "0,2"), entry("b", "2", "1,3")}), "abcd", "\"b\"");
  expect_refused(header_of({entry("a", "4", "0,4")}), "abc", "which has 3");
  expect_refused(header_of({entry("a", "2", "2,0")}), "abc", "bytes 2 to 0");
  expect_refused(header_of({entry("a", "2", "0,18446744073709551615")}), "ab", "which has 2");
  expect_refused(header_of({entry("a", "2", "18446744073709551615,1")}), "ab", "which has 2");
  expect_refused(header_of({entry("a", "3", "0,2")}), "ab", "its shape needs 3");
  expect_refused(header_of({entry("a", "0", "1,1"), entry("b", "3", "0,3")}), "abc", "\"a\"");
  expect_refused(header_of({}), "x", "end at byte 0");
  // The same entry by other rules is sound.
  std::map<std::string, std::string> metadata;
  const std::string sound = safetensors_bytes(
      header_of({entry("b", "2", "1,3"), entry("e", "0,7", "1,1"), entry("a", "", "0,1")}), "abc");
  EXPECT_EQ(parse_safetensors(sound, "x", metadata).size(), 3U);
}

TEST(SafetensorsAttack, KeysTwice) {
  expect_refused(header_of({entry("a", "1", "0,1"), entry("a", "1", "1,2")}), "ab", "stands twice");
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "a",
                 "\"dtype\" twice");
  expect_refused(R"({"a":{"shape":[1],"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "a",
                 "\"shape\" twice");
  expect_refused(R"({"__metadata__":{"k":"1","k":"2"}})", "", "\"k\" twice");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", "", "stands twice");
  // Escapes do not hide a repetition.
  expect_refused(header_of({entry("a", "1", "0,1"), entry("\\u0061", "1", "1,2")}), "ab", "twice");
}

TEST(SafetensorsAttack, WrongStructure) {
  for (const char* header : {"", " ", "[]", "\"{}\"", "null", "\xEF\xBB\xBF{}", "x{}"}) {
    expect_refused(header, "", "does not begin");
  }
  for (const char* header :
       {"{", "{}{}", "{} x", "{\"a\"}", "{,}", "{}/**/", "{} // x", "{\"a\":1e999}", "{'a':1}"}) {
    expect_refused(header, "", "not JSON at byte");
  }
  for (const char* value : {"null",
                            "true",
                            "1",
                            "-1",
                            "1.5",
                            "\"x\"",
                            "[]",
                            "{}",
                            "{\"shape\":1}",
                            "{\"shape\":{}}",
                            "{\"shape\":[null]}",
                            "{\"shape\":[-1]}",
                            "{\"shape\":[1.0]}",
                            "{\"shape\":[\"1\"]}",
                            "{\"shape\":[[1]]}",
                            "{\"dtype\":1}",
                            "{\"dtype\":[\"U8\"]}",
                            "{\"data_offsets\":[0,1,2]}",
                            "{\"data_offsets\":\"x\"}",
                            "{\"other\":1}",
                            "{\"dtype\":\"U8\",\"shape\":[1]}",
                            "{\"dtype\":\"U8\",\"data_offsets\":[0,1]}",
                            "{\"shape\":[1],\"data_offsets\":[0,1]}",
                            "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}"}) {
    expect_refused(str("{\"name\":", value, "}"), "x", "\"name\"");
  }
  for (const char* value :
       {"null", "1", "\"x\"", "[]", "{\"k\":1}", "{\"k\":null}", "{\"k\":{}}", "{\"k\":[\"x\"]}"}) {
    expect_refused(str("{\"__metadata__\":", value, "}"), "", "entry \"__metadata__\"");
  }
}

TEST(SafetensorsAttack, TextThatIsNotUtf8OrEndsEarly) {
  expect_refused(header_of({entry("a\xFF", "1", "0,1")}), "x", "not JSON at byte 11");
  expect_refused(header_of({entry("a\xC3", "1", "0,1")}), "x", "not JSON");
  expect_refused(header_of({entry("\xED\xA0\x80", "1", "0,1")}), "x", "not JSON");
  expect_refused(std::string("{}\0garbage", 10), "", "a zero at byte 10");
  expect_refused("{\"a\nb\":1}", "", "not JSON");
}

TEST(SafetensorsAttack, OtherTypesAreNamed) {
  for (const char* dtype : {"F8_E4M3", "F4", "C64", "f32", ""}) {
    expect_refused(header_of({entry("a", "1", "0,1", dtype)}), "x",
                   str("\"a\" is of type \"", dtype, "\""));
  }
}

TEST(SafetensorsAttack, NamesInMessagesAreShortAndPrintable) {
  expect_refused(header_of({entry("\\u0000\\u001b[31m", "3", "0,1")}), "x", "\"\\000\\033[31m\"");
}

}  // namespace
}  // namespace lmtrain
