#include "prepare/cache.h"

#include <gtest/gtest.h>

#include "base/examine.h"
#include "formats/token_shard.h"
#include "prepare/folder.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "0123456789abcdef0123456789abcdef";

void write_shard(const fs::path& path, int num_documents) {
  TokenShardWriter writer(path, 300);
  const std::vector<int32_t> ids = {1, 5, 6, 2};
  for (int i = 0; i < num_documents; ++i) writer.add_document(ids, 9);
  writer.finish();
}

// A cache with one entry of each kind.
class CacheTest : public ::testing::Test {
 protected:
  CacheTest() {
    data_.fingerprint = "fedcba9876543210fedcba9876543210";
    data_.tokenizer_model = kTokenizerModel;
    const fs::path shards = cache_.shards_folder(data_.fingerprint);
    fs::create_directories(shards);
    data_.train_shard = shards / "train.bin";
    data_.eval_shard = shards / "eval.bin";
    write_shard(data_.train_shard, 12);
    write_shard(*data_.eval_shard, 3);
    data_.train_documents = 12;
    data_.train_tokens = 48;
    data_.train_bytes = 108;
    data_.eval_documents = 3;
    data_.eval_tokens = 12;
    data_.eval_bytes = 27;
    data_.sources = {{0, 0}, {7, 1}, {9, 0}};
    data_.eval_in_train = {1, 3, 9, 27};
    data_.eval_sources = {1, 0, 1};
    cache_.store_shards_info(data_);
    cache_.store_index(kKey, {{0, "/a"}, {7, "/b"}, {9, "/c"}}, data_);
  }

  void expect_unchanged(const PreparedData& found) const {
    EXPECT_EQ(found.fingerprint, data_.fingerprint);
    EXPECT_EQ(found.tokenizer_model, data_.tokenizer_model);
    EXPECT_EQ(found.train_shard, data_.train_shard);
    EXPECT_EQ(found.eval_shard, data_.eval_shard);
    EXPECT_EQ(found.document_files, data_.document_files);
    EXPECT_EQ(found.train_documents, data_.train_documents);
    EXPECT_EQ(found.train_tokens, data_.train_tokens);
    EXPECT_EQ(found.train_bytes, data_.train_bytes);
    EXPECT_EQ(found.eval_documents, data_.eval_documents);
    EXPECT_EQ(found.eval_tokens, data_.eval_tokens);
    EXPECT_EQ(found.eval_bytes, data_.eval_bytes);
    EXPECT_EQ(found.eval_in_train.documents, data_.eval_in_train.documents);
    EXPECT_EQ(found.eval_in_train.of_documents, data_.eval_in_train.of_documents);
    EXPECT_EQ(found.eval_in_train.bytes, data_.eval_in_train.bytes);
    EXPECT_EQ(found.eval_in_train.of_bytes, data_.eval_in_train.of_bytes);
    EXPECT_EQ(found.eval_sources, data_.eval_sources);
    ASSERT_EQ(found.sources.size(), data_.sources.size());
    for (size_t i = 0; i < found.sources.size(); ++i) {
      EXPECT_EQ(found.sources[i].first_document, data_.sources[i].first_document);
      EXPECT_EQ(found.sources[i].source, data_.sources[i].source);
    }
  }

  // Calls `read` with each byte of the file changed: every bit of it flipped, and some other
  // values.
  template <class Read>
  void with_each_byte_changed(const fs::path& file, const Read& read) const {
    const std::string bytes = read_file(file);
    for (size_t offset = 0; offset < bytes.size(); ++offset) {
      std::string values = {' ', '0', '9', '"', '}', '\0'};
      for (int bit = 0; bit < 8; ++bit)
        values += static_cast<char>(bytes[offset] ^ static_cast<char>(1 << bit));
      for (const char value : values) {
        if (value == bytes[offset]) continue;
        std::string damaged = bytes;
        damaged[offset] = value;
        testing::replace_file(file, damaged);
        read();
        if (HasFailure()) FAIL() << file << ": byte " << offset << " is " << int{value};
      }
    }
    testing::replace_file(file, bytes);
  }

  Folder folder_;
  Cache cache_{folder_.path() / "cache"};
  PreparedData data_;
};

TEST_F(CacheTest, AnyChangedByteIsFoundOrHarmless) {
  const fs::path index = cache_.journal_path(kKey).replace_extension(".json");
  const fs::path info = cache_.shards_folder(data_.fingerprint) / "info.json";
  for (const fs::path& file : {index, info}) {
    int broken = 0;
    ::testing::internal::CaptureStderr();
    with_each_byte_changed(file, [&] {
      const std::optional<PreparedData> found = cache_.find_index(kKey);
      if (found) {
        expect_unchanged(*found);
      } else {
        ++broken;
      }
    });
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_GT(broken, 1000);
    expect_contains(said, "is broken and made anew");
    expect_contains(said, file.native());
  }
  const std::optional<PreparedData> found = cache_.find_index(kKey);
  ASSERT_TRUE(found);
  expect_unchanged(*found);
}

TEST_F(CacheTest, AnyChangedByteOfTheTableOfFilesIsFoundOrHarmless) {
  const std::vector<std::string> expected = {"/a", "/b", "/c"};
  with_each_byte_changed(data_.document_files, [&] {
    try {
      EXPECT_EQ(files_of_documents(data_.document_files, {2, 8, 11}), expected);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
      expect_contains(error.what(), data_.document_files.native());
    }
  });
}

TEST_F(CacheTest, AnyChangedByteOfATokenizersInfoIsFoundOrHarmless) {
  const Tokenizer tokenizer = Tokenizer::load(kTokenizerModel);
  const fs::path path = cache_.tokenizer_path(kKey, Tokenizer::kSentencePieceModel);
  cache_.store_tokenizer(path, tokenizer);
  const fs::path info = path.parent_path() / "info.json";
  const std::string bytes = read_file(info);
  ::testing::internal::CaptureStderr();
  for (size_t offset = 0; offset < bytes.size(); ++offset) {
    std::string damaged = bytes;
    damaged[offset] = static_cast<char>(damaged[offset] ^ 1);
    testing::replace_file(info, damaged);
    const std::optional<Tokenizer> found = cache_.find_tokenizer(path);
    if (found) {
      EXPECT_EQ(found->model_bytes(), tokenizer.model_bytes()) << offset;
    }
  }
  expect_contains(::testing::internal::GetCapturedStderr(), "is broken and made anew");
}

TEST_F(CacheTest, LeftoversAreRemovedButNotThroughALink) {
  const fs::path shards = cache_.shards_folder(data_.fingerprint);
  testing::replace_file(shards / "train.bin.tmp", "left");
  cache_.clean_shards(data_.fingerprint);
  EXPECT_FALSE(is_there(shards / "train.bin.tmp"));
  EXPECT_TRUE(is_there(shards / "train.bin"));
  // The same folder in an archive, beside files of others.
  const fs::path archive = folder_.path() / "archive";
  fs::rename(shards, archive);
  fs::create_directory_symlink(archive, shards);
  testing::replace_file(archive / "notes.txt", "keep");
  cache_.clean_shards(data_.fingerprint);
  EXPECT_TRUE(is_there(archive / "notes.txt"));
}

}  // namespace
}  // namespace lmtrain
