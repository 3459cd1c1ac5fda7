#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/support.h"
#include "formats/gguf_reader.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::GgufReader;
using testing::TemporaryFolder;

std::string written(const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors,
                    const GgufData& data) {
  const TemporaryFolder folder;
  FileWriter writer(folder / "file");
  write_gguf(writer, metadata, tensors, data);
  writer.finish();
  return read_file(folder / "file");
}

// The number of a fp16, by its definition.
double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

TEST(Gguf, ASmallFileHasTheseBytes) {
  GgufMetadata metadata;
  metadata.add_integer("a", 7);
  metadata.add_flag("b.c", true);
  const std::string bytes =
      written(metadata, {{"t", GgufType::kF32, {1, 2}}}, [](const GgufTensor&) {
        return std::string("\0\0\x80\x3F\0\0\0\x40", 8);  // 1, 2
      });
  const std::string head(
      "GGUF\3\0\0\0"
      "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0a\4\0\0\0\7\0\0\0"
      "\3\0\0\0\0\0\0\0b.c\7\0\0\0\1"
      "\1\0\0\0\0\0\0\0t\2\0\0\0"
      "\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0\0\0\0\0",
      24 + 17 + 16 + 13 + 16 + 12);
  ASSERT_EQ(head.size(), 98U);
  const std::string expected = head + std::string(30, '\0') +
                               std::string("\0\0\x80\x3F\0\0\0\x40", 8) + std::string(24, '\0');
  EXPECT_EQ(bytes, expected);
}

TEST(Gguf, EveryKindOfValueIsReadBack) {
  GgufMetadata metadata;
  metadata.add_integer("integer", 4000000000U);
  metadata.add_number("number", 1e-5F);
  metadata.add_flag("no", false);
  metadata.add_text("text", "caf\xC3\xA9");
  metadata.add_texts("texts", std::vector<std::string>{"a b", "", "c"});
  metadata.add_numbers("numbers", std::vector<float>{-1.5F, 0});
  metadata.add_integers("integers", std::vector<int32_t>{-1, 6});
  EXPECT_EQ(metadata.size(), 7U);
  const std::string bytes = written(metadata, {}, [](const GgufTensor&) { return std::string(); });
  const GgufReader file(bytes);
  EXPECT_EQ(file.magic, "GGUF");
  EXPECT_EQ(file.version, 3U);
  EXPECT_EQ(file.keys, (std::vector<std::string>{"integer", "number", "no", "text", "texts",
                                                 "numbers", "integers"}));
  EXPECT_EQ(file.number_of("integer"), 4e9);
  EXPECT_EQ(file.number_of("number"), static_cast<double>(1e-5F));
  EXPECT_EQ(file.values.at("no").type, 7U);
  EXPECT_EQ(file.number_of("no"), 0);
  EXPECT_EQ(file.text_of("text"), "caf\xC3\xA9");
  EXPECT_EQ(file.values.at("texts").texts, (std::vector<std::string>{"a b", "", "c"}));
  EXPECT_EQ(file.values.at("numbers").numbers, (std::vector<double>{-1.5, 0}));
  EXPECT_EQ(file.values.at("integers").numbers, (std::vector<double>{-1, 6}));
  EXPECT_EQ(bytes.size() % 32, 0U);
}

TEST(Gguf, TensorsLieAtMultiplesOf32AndKeepTheirBytes) {
  const std::vector<GgufTensor> tensors = {{"odd", GgufType::kF16, {3, 5}},
                                           {"vector", GgufType::kF32, {7}},
                                           {"blocks", GgufType::kQ80, {2, 64}},
                                           {"wide", GgufType::kBF16, {1, 1}}};
  const auto content = [](const GgufTensor& tensor) {
    return std::string(gguf_tensor_bytes(tensor), tensor.name.front());
  };
  const std::string bytes = written({}, tensors, content);
  const GgufReader file(bytes);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  uint64_t end = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const testing::GgufTensorRead& read = file.tensors[i];
    EXPECT_EQ(read.name, tensors[i].name);
    EXPECT_EQ(read.type, static_cast<uint32_t>(tensors[i].type));
    EXPECT_EQ(read.offset % 32, 0U);
    EXPECT_GE(read.offset, end);
    const std::string expected = content(tensors[i]);
    EXPECT_EQ(file.data(read, expected.size()), expected);
    end = read.offset + expected.size();
  }
  EXPECT_EQ(file.tensors[0].sizes, (std::vector<uint64_t>{5, 3}));
  EXPECT_EQ(file.tensors[0].type, 1U);
  EXPECT_EQ(file.tensors[2].type, 8U);
  EXPECT_EQ(file.tensors[3].type, 30U);
  EXPECT_EQ(gguf_tensor_bytes(tensors[2]), 4U * 34U);
  EXPECT_EQ(bytes.size(), file.data_begin + (end + 31) / 32 * 32);
}

// The reference: a scale of the largest size over 127, rounded to fp16; the numbers over the scale
// that is not rounded, to the nearest, away from zero in the middle.
TEST(Gguf, Q8IsThatOfTheReference) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const float size : {1.0F, 1e-3F, 300.0F, 1e-7F}) {
    std::vector<float> values(96);
    for (float& value : values) value = normal(random) * size;
    for (size_t i = 32; i < 64; ++i) values[i] = 0;
    values[64] = -5 * size;
    const std::string bytes = q8_0_bytes(values, "t");
    ASSERT_EQ(bytes.size(), 3U * 34U);
    for (size_t block = 0; block < 3; ++block) {
      float largest = 0;
      for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[block * 32 + i]));
      const float scale = largest / 127;
      uint16_t stored = 0;
      std::memcpy(&stored, bytes.data() + block * 34, 2);
      const auto exact = static_cast<double>(scale);
      const double error = std::abs(half(stored) - exact);
      EXPECT_LE(error, std::abs(half(static_cast<uint16_t>(stored + 1)) - exact));
      if (stored > 0) {
        EXPECT_LE(error, std::abs(half(static_cast<uint16_t>(stored - 1)) - exact));
      }
      for (size_t i = 0; i < 32; ++i) {
        const float value = values[block * 32 + i];
        const float inverse = scale == 0 ? 0 : 1 / scale;
        const auto expected = static_cast<int>(std::round(value * inverse));
        EXPECT_EQ(static_cast<signed char>(bytes[block * 34 + 2 + i]), expected)
            << block << " " << i;
      }
    }
  }
}

TEST(Gguf, ScalesAreRoundedToEvenInTheMiddle) {
  const auto scale_of = [](float largest) {
    std::vector<float> values(32, 0.0F);
    values[3] = largest;
    uint16_t bits = 0;
    std::memcpy(&bits, q8_0_bytes(values, "t").data(), 2);
    return bits;
  };
  EXPECT_EQ(scale_of(127), 0x3C00);                       // 1
  EXPECT_EQ(scale_of(127 * (1 + 0x1p-11F)), 0x3C00);      // between 1 and the next
  EXPECT_EQ(scale_of(127 * (1 + 3 * 0x1p-11F)), 0x3C02);  // to the even one above
  EXPECT_EQ(scale_of(127 * 0x1p-14F), 0x0400);            // the smallest normal number
  EXPECT_EQ(scale_of(127 * 0x1p-24F), 0x0001);            // the smallest of all
  EXPECT_EQ(scale_of(127 * 0x1p-26F), 0x0000);
  EXPECT_EQ(scale_of(127 * 65504.0F), 0x7BFF);  // the largest
}

TEST(Gguf, NumbersWithoutAFormInQ8AreNamed) {
  std::vector<float> values(64, 1.0F);
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), 127 * 65600.0F}) {
    values[40] = bad;
    const std::string message =
        error_of(ErrorKind::kNumeric, [&] { q8_0_bytes(values, "blk.0.ffn_up.weight"); });
    EXPECT_NE(message.find("blk.0.ffn_up.weight"), std::string::npos) << message;
    EXPECT_NE(message.find("bf16"), std::string::npos) << message;
  }
}

TEST(Gguf, RefusesWhatNoFileHolds) {
  GgufMetadata metadata;
  metadata.add_integer("a.b", 1);
  error_of(ErrorKind::kInternal, [&] { metadata.add_flag("a.b", true); });
  error_of(ErrorKind::kInternal, [&] { metadata.add_flag("A", true); });
  error_of(ErrorKind::kInternal, [&] { metadata.add_flag("", true); });
  EXPECT_EQ(metadata.size(), 1U);
  const auto four = [](const GgufTensor&) { return std::string(4, 'x'); };
  const GgufTensor one = {"t", GgufType::kF32, {1}};
  error_of(ErrorKind::kInternal, [&] { written({}, {one, one}, four); });
  error_of(ErrorKind::kInternal, [&] { written({}, {{"t", GgufType::kF32, {2}}}, four); });
  error_of(ErrorKind::kInternal, [&] { gguf_tensor_bytes({"t", GgufType::kQ80, {2, 48}}); });
}

}  // namespace
}  // namespace lmtrain
