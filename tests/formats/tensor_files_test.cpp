#include "formats/tensor_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/support.h"
#include "base/text.h"
#include "formats/safetensors_support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::OwnedTensors;
using testing::TemporaryFolder;
using testing::write_tensors;

const OwnedTensors kFirst = {{"a", {DType::kU8, {2}, "aa"}}, {"b", {DType::kU8, {2}, "bb"}}};
const OwnedTensors kSecond = {{"c", {DType::kU8, {2}, "cc"}}};

void write_index(const TemporaryFolder& folder, const std::string& weight_map) {
  testing::replace_file(folder / kModelIndexFile,
                        str(R"({"metadata":{"total_size":6},"weight_map":)", weight_map, "}"));
}

void write_sharded(const TemporaryFolder& folder) {
  write_tensors(folder / "1.safetensors", kFirst);
  write_tensors(folder / "2.safetensors", kSecond);
  write_index(folder, R"({"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors"})");
}

void expect_refused(const fs::path& folder, ErrorKind kind, const std::vector<std::string>& parts) {
  const std::string message = error_of(kind, [&] { TensorFiles{folder}; });
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(TensorFiles, OneFileAndShardsHoldTheSame) {
  const fs::path reference = LMTRAIN_SOURCE_DIR "/tests/reference/eval";
  const TensorFiles one(reference / "hf");
  const TensorFiles shards(reference / "hf_sharded");
  ASSERT_EQ(one.tensors().size(), 20U);
  ASSERT_EQ(shards.tensors().size(), 20U);
  for (const auto& [name, view] : one.tensors()) {
    ASSERT_TRUE(shards.contains(name));
    EXPECT_EQ(shards.at(name).shape, view.shape);
  }
}

TEST(TensorFiles, ReadsShards) {
  const TemporaryFolder folder;
  write_sharded(folder);
  const TensorFiles files(folder.path());
  OwnedTensors all = kFirst;
  all.insert(kSecond.begin(), kSecond.end());
  testing::expect_equal(files.tensors(), all);
  EXPECT_FALSE(files.contains("d"));
  const std::string message = error_of(ErrorKind::kData, [&] { files.at("d"); });
  EXPECT_NE(message.find("\"d\""), std::string::npos) << message;
}

TEST(TensorFiles, OneFileComesBeforeAnIndex) {
  const TemporaryFolder folder;
  write_sharded(folder);
  write_tensors(folder / kModelFile, kSecond);
  testing::expect_equal(TensorFiles(folder.path()).tensors(), kSecond);
}

TEST(TensorFiles, MissingPathIsUsage) {
  const TemporaryFolder folder;
  expect_refused(folder / "typo", ErrorKind::kUsage, {"typo", "does not exist"});
  testing::replace_file(folder / "file", "x");
  expect_refused(folder / "file", ErrorKind::kUsage, {"is a file"});
}

TEST(TensorFiles, FoldersWithoutSafetensors) {
  const TemporaryFolder folder;
  expect_refused(folder.path(), ErrorKind::kData, {"no model.safetensors"});
  testing::replace_file(folder / "pytorch_model.bin", "x");
  expect_refused(folder.path(), ErrorKind::kData, {"pytorch_model.bin", "convert"});
}

TEST(TensorFiles, ShardsThatDisagreeWithTheIndex) {
  const TemporaryFolder folder;
  write_sharded(folder);
  fs::remove(folder / "2.safetensors");
  expect_refused(folder.path(), ErrorKind::kData, {"\"c\"", "\"2.safetensors\"", "lacks"});

  write_tensors(folder / "2.safetensors", {});
  expect_refused(folder.path(), ErrorKind::kData, {"2.safetensors", "lacks tensor \"c\""});

  OwnedTensors both = kSecond;
  both.insert(*kFirst.begin());
  write_tensors(folder / "2.safetensors", both);
  expect_refused(folder.path(), ErrorKind::kData,
                 {"2.safetensors: holds tensor \"a\"", "\"1.safetensors\""});

  write_sharded(folder);
  write_index(folder, R"({"a":"1.safetensors","c":"1.safetensors"})");
  expect_refused(folder.path(), ErrorKind::kData, {"1.safetensors: lacks tensor \"c\""});
}

TEST(TensorFiles, TensorsTheIndexForgetsAreReadOnce) {
  const TemporaryFolder folder;
  write_sharded(folder);
  write_index(folder, R"({"a":"1.safetensors","c":"2.safetensors"})");
  EXPECT_TRUE(TensorFiles(folder.path()).contains("b"));
  OwnedTensors again = kSecond;
  again["b"] = kFirst.at("b");
  write_tensors(folder / "2.safetensors", again);
  expect_refused(folder.path(), ErrorKind::kData, {"\"b\"", "another file"});
}

TEST(TensorFiles, IndexesThatAreNone) {
  const TemporaryFolder folder;
  write_sharded(folder);
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "not JSON"},
      {"[]", "weight_map"},
      {"{}", "weight_map"},
      {R"({"weight_map":[]})", "weight_map"},
      {R"({"weight_map":{"a":1}})", "\"a\""},
      {R"({"weight_map":{"a":"1.safetensors","a":"2.safetensors"}})", "twice"},
      {R"({"weight_map":{"a":"../1.safetensors"}})", "plain file name"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "plain file name"},
      {R"({"weight_map":{"a":".."}})", "plain file name"},
      {R"({"weight_map":{"a":""}})", "plain file name"},
      {R"({"weight_map":{"a":"1\u0000"}})", "plain file name"},
      {std::string(1'000'000, '['), "nested"},
  };
  for (const auto& [text, why] : table) {
    testing::replace_file(folder / kModelIndexFile, text);
    expect_refused(folder.path(), ErrorKind::kData, {kModelIndexFile, why});
  }
}

TEST(TensorFiles, DamagedShardIsNamed) {
  const TemporaryFolder folder;
  write_sharded(folder);
  append_file(folder / "2.safetensors", "x", false);
  expect_refused(folder.path(), ErrorKind::kData, {"2.safetensors"});
}

using Json = nlohmann::json;

// Tensors "a", "b" ... of so many bytes each.
std::vector<TensorToWrite> tensors(const std::vector<int64_t>& bytes) {
  std::vector<TensorToWrite> all;
  for (const int64_t size : bytes)
    all.push_back({std::string(1, static_cast<char>('a' + all.size())),
                   DType::kBF16,
                   {size / 2, 1},
                   nullptr});
  return all;
}

// The names of the tensors of each file.
std::vector<std::string> division(const std::vector<int64_t>& bytes, uint64_t limit) {
  std::vector<std::string> files;
  for (const TensorShard& file : divide_tensors(tensors(bytes), limit).files) {
    files.emplace_back();
    for (const TensorToWrite& tensor : file.tensors) files.back() += tensor.name;
  }
  return files;
}
using Files = std::vector<std::string>;

TEST(DivideTensors, AFileHoldsWhatTheLimitAllows) {
  EXPECT_EQ(division({4, 6, 10}, 20), (Files{"abc"}));
  EXPECT_EQ(division({4, 6, 10}, 19), (Files{"ab", "c"}));
  EXPECT_EQ(division({4, 6, 10}, 10), (Files{"ab", "c"}));
  EXPECT_EQ(division({4, 6, 10}, 9), (Files{"a", "b", "c"}));
  // A tensor beyond the limit is a file of its own, and no file is empty.
  EXPECT_EQ(division({40, 2, 2, 40, 2}, 5), (Files{"a", "bc", "d", "e"}));
  EXPECT_EQ(division({40}, 1), (Files{"a"}));
}

TEST(DivideTensors, OneFileHasNoIndex) {
  const TensorShards shards = divide_tensors(tensors({4, 6}), 10);
  EXPECT_EQ(shards.files[0].file, kModelFile);
  EXPECT_EQ(shards.index, "");
}

TEST(DivideTensors, TheIndexIsThatOfTransformers) {
  const TensorShards shards = divide_tensors(tensors({4, 6, 10}), 10);
  EXPECT_EQ(shards.files[0].file, "model-00001-of-00002.safetensors");
  EXPECT_EQ(shards.files[1].file, "model-00002-of-00002.safetensors");
  EXPECT_EQ(Json::parse(shards.index),
            (Json{{"metadata", {{"total_size", 20}, {"total_parameters", 10}}},
                  {"weight_map",
                   {{"a", "model-00001-of-00002.safetensors"},
                    {"b", "model-00001-of-00002.safetensors"},
                    {"c", "model-00002-of-00002.safetensors"}}}}));
}

}  // namespace
}  // namespace lmtrain
