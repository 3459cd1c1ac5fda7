#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/error.h"
#include "base/support.h"
#include "base/text.h"
#include "formats/safetensors_support.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::OwnedTensors;
using testing::safetensors_bytes;
using testing::TemporaryFolder;
using testing::write_tensors;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Safetensors, RandomTensorsRoundTrip) {
  const TemporaryFolder folder;
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    const OwnedTensors tensors = testing::random_tensors(random, 8);
    const std::map<std::string, std::string> metadata =
        round % 2 == 0 ? std::map<std::string, std::string>{}
                       : std::map<std::string, std::string>{{"format", "pt"}, {"\"\n\xC3\xA9", ""}};
    write_tensors(folder / "file", tensors, metadata);
    const SafetensorsFile file(folder / "file");
    testing::expect_equal(file.tensors(), tensors);
    EXPECT_EQ(file.metadata(), metadata);
  }
}

TEST(Safetensors, FilesMoveWithTheirViews) {
  const TemporaryFolder folder;
  const OwnedTensors tensors = {{"a", {DType::kU8, {3}, "abc"}}};
  write_tensors(folder / "file", tensors);
  std::vector<SafetensorsFile> files;
  files.reserve(3);  // so that some have to move
  for (int i = 0; i < 10; ++i) files.emplace_back(folder / "file");
  for (const SafetensorsFile& file : files) testing::expect_equal(file.tensors(), tensors);
}

TEST(Safetensors, ReadsWhatTheReferenceLibraryWrote) {
  const SafetensorsFile file(LMTRAIN_SOURCE_DIR
                             "/tests/reference/llama/gqa_untied/golden.safetensors");
  EXPECT_EQ(file.at("input_ids").dtype, DType::kI64);
  EXPECT_EQ(file.at("input_ids").shape.size(), 2U);
  EXPECT_EQ(file.at("logits").dtype, DType::kF32);
  const std::string message = error_of(ErrorKind::kData, [&] { file.at("nothing"); });
  EXPECT_TRUE(has(message, "golden.safetensors") && has(message, "\"nothing\"")) << message;
}

TEST(Safetensors, WritesLargeElementsFirstThenByNameAligned) {
  const TemporaryFolder folder;
  write_tensors(folder / "file",
                {{"a", {DType::kU8, {1}, "x"}},
                 {"z", {DType::kI64, {1}, std::string(8, 'z')}},
                 {"c", {DType::kBF16, {}, "cc"}},
                 {"b", {DType::kBF16, {1, 1}, "bb"}}},
                {{"format", "pt"}});
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("z":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"BF16","shape":[1,1],"data_offsets":[8,10]},)"
                             R"("c":{"dtype":"BF16","shape":[],"data_offsets":[10,12]},)"
                             R"("a":{"dtype":"U8","shape":[1],"data_offsets":[12,13]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(folder / "file"), safetensors_bytes(header + padding, "zzzzzzzzbbccx"));
}

TEST(Safetensors, FileWithoutTensors) {
  const TemporaryFolder folder;
  write_tensors(folder / "file", {});
  EXPECT_TRUE(SafetensorsFile(folder / "file").tensors().empty());
}

TEST(Safetensors, LeadingSpaceAndPaddingAreRead) {
  const std::string header =
      " \n{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  \n ";
  const std::string file = safetensors_bytes(header, "ab");
  std::map<std::string, std::string> metadata;
  EXPECT_EQ(parse_safetensors(file, "x", metadata).at("a").bytes, "ab");
}

TEST(Safetensors, NamesSizesAndOrderOfTypes) {
  const std::vector<std::pair<std::string, size_t>> types = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"I16", 2}, {"U16", 2}, {"F16", 2}, {"BF16", 2},
      {"I32", 4},  {"U32", 4}, {"F32", 4}, {"F64", 8}, {"I64", 8}, {"U64", 8}};
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(dtype_name(static_cast<DType>(i)), types[i].first);
    EXPECT_EQ(dtype_size(static_cast<DType>(i)), types[i].second);
  }
}

TEST(Safetensors, WhatTheFormatCannotHoldIsOurBug) {
  const TemporaryFolder folder;
  const std::string bytes(64, 'x');
  const auto refused = [&](std::vector<TensorToWrite> tensors,
                           const std::map<std::string, std::string>& metadata = {}) {
    FileWriter writer(folder / "file");
    error_of(ErrorKind::kInternal,
             [&] { write_safetensors(writer, std::move(tensors), metadata); });
  };
  const TensorToWrite good{"a", DType::kF32, {2}, bytes.data()};
  refused({good, good});
  refused({{"a", DType::kF32, {2}, bytes.data()}, {"a", DType::kU8, {2}, bytes.data()}});
  refused({{"__metadata__", DType::kF32, {2}, bytes.data()}});
  refused({{"a", DType::kF32, {-2}, bytes.data()}});
  refused({{"a", DType::kF32, {int64_t{1} << 62, 4}, bytes.data()}});
  refused({{"\xFF", DType::kF32, {2}, bytes.data()}});
  refused({good}, {{"key", "\xFF"}});
}

TEST(Safetensors, MissingFileIsIo) {
  error_of(ErrorKind::kIo, [] { SafetensorsFile("/nonexistent/model.safetensors"); });
}

using testing::error_of;
using testing::OwnedTensors;
using testing::TemporaryFolder;

TEST(SafetensorsLayout, SaysWhereTheWriterPutsEachTensor) {
  const TemporaryFolder folder;
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const OwnedTensors tensors = testing::random_tensors(random, 8);
    const std::map<std::string, std::string> metadata = {{"format", "pt"}};
    testing::write_tensors(folder / "file", tensors, metadata);
    const std::string bytes = read_file(folder / "file");

    std::vector<TensorToWrite> described;
    for (const auto& [name, tensor] : tensors)
      described.push_back({name, tensor.dtype, tensor.shape, nullptr});
    const SafetensorsLayout layout(described, metadata, "file");
    EXPECT_EQ(layout.file_size(), bytes.size());
    EXPECT_EQ(bytes.find(str(layout.length(), layout.header())), 0U);
    for (const TensorToWrite& tensor : described) {
      EXPECT_EQ(bytes.substr(layout.offset_of(tensor), SafetensorsLayout::size_of(tensor)),
                tensors.at(tensor.name).bytes);
    }
  }
}

TEST(SafetensorsLayout, ATensorOfAnotherNameShapeOrTypeHasNoPlace) {
  const TensorToWrite tensor{"a", DType::kF32, {2, 3}, nullptr};
  const SafetensorsLayout layout({tensor}, {}, "file");
  EXPECT_EQ(layout.offset_of(tensor), layout.file_size() - 24);
  for (const TensorToWrite& other : {TensorToWrite{"b", DType::kF32, {2, 3}, nullptr},
                                     TensorToWrite{"a", DType::kF32, {3, 2}, nullptr},
                                     TensorToWrite{"a", DType::kI32, {2, 3}, nullptr}}) {
    const std::string message = error_of(ErrorKind::kInternal, [&] { layout.offset_of(other); });
    EXPECT_NE(message.find("file"), std::string::npos) << message;
  }
}

}  // namespace

}  // namespace lmtrain
