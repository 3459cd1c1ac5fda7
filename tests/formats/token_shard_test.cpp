#include "formats/token_shard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/lost_pages.h"
#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::TemporaryFolder;
using Documents = std::vector<std::vector<int32_t>>;

Documents random_documents(std::mt19937_64& random, size_t count, int64_t vocab_size) {
  Documents documents(count);
  for (auto& document : documents) {
    document.resize(random() % 4 == 0 ? random() % 3 : random() % 200);
    for (int32_t& id : document) {
      id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
    }
  }
  return documents;
}

void write_shard(const fs::path& path, const Documents& documents, int64_t vocab_size) {
  TokenShardWriter writer(path, vocab_size);
  for (size_t i = 0; i < documents.size(); ++i) writer.add_document(documents[i], 10 * i);
  writer.finish();
}

void expect_holds(const TokenShard& shard, const Documents& documents) {
  ASSERT_EQ(shard.num_documents(), static_cast<int64_t>(documents.size()));
  int64_t begin = 0;
  std::vector<int32_t> all;
  for (size_t i = 0; i < documents.size(); ++i) {
    const auto document = static_cast<int64_t>(i);
    const auto size = static_cast<int64_t>(documents[i].size());
    ASSERT_EQ(shard.document_begin(document), begin);
    ASSERT_EQ(shard.document_end(document), begin + size);
    ASSERT_EQ(shard.document_size(document), size);
    ASSERT_EQ(shard.raw_bytes(document), 10 * i);
    std::vector<int32_t> ids(documents[i].size());
    shard.read_tokens(begin, ids);
    ASSERT_EQ(ids, documents[i]);
    all.insert(all.end(), ids.begin(), ids.end());
    begin += size;
  }
  ASSERT_EQ(shard.num_tokens(), begin);
  std::vector<int32_t> read(all.size());
  shard.read_tokens(0, read);
  ASSERT_EQ(read, all);
}

TEST(TokenShard, RandomDocumentsRoundTrip) {
  const TemporaryFolder folder;
  std::mt19937_64 random(4);
  for (const int64_t vocab_size :
       {int64_t{1}, int64_t{300}, int64_t{65'536}, int64_t{65'537}, int64_t{1} << 31}) {
    for (const size_t count : {0U, 1U, 2U, 3U, 50U}) {
      const Documents documents = random_documents(random, count, vocab_size);
      write_shard(folder / "shard", documents, vocab_size);
      const TokenShard shard(folder / "shard", true);
      EXPECT_EQ(shard.vocab_size(), vocab_size);
      expect_holds(shard, documents);
    }
  }
}

TEST(TokenShard, WidthFollowsTheVocabulary) {
  const TemporaryFolder folder;
  const Documents documents = {{0, 65'535, 7, 1}};
  write_shard(folder / "narrow", documents, 65'536);
  write_shard(folder / "wide", documents, 65'537);
  EXPECT_EQ(fs::file_size(folder / "narrow"), 64U + 4 * 2 + 16);
  EXPECT_EQ(fs::file_size(folder / "wide"), 64U + 4 * 4 + 16);
  for (const char* name : {"narrow", "wide"}) {
    expect_holds(TokenShard(folder / name, true), documents);
  }
}

TEST(TokenShard, LargerThanTheWritersBuffer) {
  const TemporaryFolder folder;
  Documents documents(3);
  for (int32_t i = 0; i < 700'000; ++i) documents[1].push_back(i);
  documents[2] = {5};
  write_shard(folder / "shard", documents, 700'000);
  expect_holds(TokenShard(folder / "shard", true), documents);
}

TEST(TokenShard, BytesAreAsDocumented) {
  const TemporaryFolder folder;
  write_shard(folder / "shard", {{1, 2, 258}}, 300);
  const std::string bytes = read_file(folder / "shard");
  ASSERT_EQ(bytes.size(), 64U + 6 + 2 + 16);
  EXPECT_EQ(bytes.substr(0, 8), "LMTSHARD");
  const std::string u32_u32_u64_u64_u64(
      "\1\0\0\0\2\0\0\0\x2C\1\0\0\0\0\0\0\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 32);
  EXPECT_EQ(bytes.substr(8, 32), u32_u32_u64_u64_u64);
  EXPECT_EQ(bytes.substr(48, 12), std::string(12, '\0'));
  EXPECT_EQ(bytes.substr(64, 8), std::string("\1\0\2\0\2\1\0\0", 8));
  EXPECT_EQ(bytes.substr(72), std::string("\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16));
}

TEST(TokenShard, SurvivesAMove) {
  const TemporaryFolder folder;
  const Documents documents = {{1, 2}, {}, {3}};
  write_shard(folder / "shard", documents, 10);
  TokenShard first(folder / "shard", false);
  const TokenShard second(std::move(first));
  expect_holds(second, documents);
}

TEST(TokenShard, AppearsOnlyWhenFinished) {
  const TemporaryFolder folder;
  {
    TokenShardWriter writer(folder / "shard", 10);
    writer.add_document(std::vector<int32_t>{1, 2, 3}, 3);
    EXPECT_EQ(writer.num_documents(), 1);
    EXPECT_EQ(writer.num_tokens(), 3);
    EXPECT_FALSE(fs::exists(folder / "shard"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path())) << "an abandoned shard leaves nothing";
}

TEST(TokenShard, GoesOnFromWhatWasSynced) {
  const TemporaryFolder folder;
  std::mt19937_64 random(7);
  for (const int64_t vocab_size : {300, 100'000}) {
    const Documents documents = random_documents(random, 3000, vocab_size);
    write_shard(folder / "whole", documents, vocab_size);
    const auto add = [&](TokenShardWriter& writer, size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) writer.add_document(documents[i], 10 * i);
    };
    // Killed at once, after more documents, and after it was finished.
    for (const size_t later : {size_t{1000}, size_t{2500}, documents.size()}) {
      ShardProgress progress;
      {
        TokenShardWriter writer(folder / "part", vocab_size);
        add(writer, 0, 1000);
        progress = writer.sync();
        EXPECT_EQ(progress.num_documents, 1000);
        add(writer, 1000, later);
        if (later == documents.size()) writer.finish();
      }
      TokenShardWriter writer(folder / "part", vocab_size, progress);
      EXPECT_FALSE(fs::exists(folder / "part")) << "it is not finished now";
      EXPECT_EQ(writer.num_documents(), 1000);
      add(writer, 1000, documents.size());
      writer.finish();
      EXPECT_EQ(read_file(folder / "part"), read_file(folder / "whole"));
      fs::remove(folder / "part");
    }
  }
}

TEST(TokenShard, WhatWasSyncedMustBeThere) {
  const TemporaryFolder folder;
  ShardProgress progress;
  {
    TokenShardWriter writer(folder / "s", 300);
    writer.add_document(std::vector<int32_t>(100, 7), 50);
    progress = writer.sync();
  }
  overwrite_file(folder / "s.tmp", 100, "\xFF");
  error_of(ErrorKind::kData, [&] { TokenShardWriter(folder / "s", 300, progress); });
  overwrite_file(folder / "s.tmp", 100, "\x07");
  overwrite_file(folder / "s.index.tmp", 0, "\xFF");
  error_of(ErrorKind::kData, [&] { TokenShardWriter(folder / "s", 300, progress); });
  fs::remove(folder / "s.tmp");
  error_of(ErrorKind::kData, [&] { TokenShardWriter(folder / "s", 300, progress); });
}

TEST(TokenShard, IdsOutsideTheVocabularyAreRefused) {
  const TemporaryFolder folder;
  TokenShardWriter writer(folder / "shard", 10);
  for (const int32_t id : {-1, 10, INT32_MAX, INT32_MIN}) {
    error_of(ErrorKind::kData, [&] { writer.add_document(std::vector<int32_t>{1, id}, 0); });
  }
}

TEST(TokenShard, WrongUseIsInternal) {
  const TemporaryFolder folder;
  for (const int64_t vocab_size : {int64_t{-1}, int64_t{0}, (int64_t{1} << 31) + 1}) {
    error_of(ErrorKind::kInternal, [&] { TokenShardWriter(folder / "x", vocab_size); });
  }
  write_shard(folder / "shard", {{1, 2, 3}}, 10);
  const TokenShard shard(folder / "shard", true);
  std::vector<int32_t> two(2);
  shard.read_tokens(1, two);
  shard.read_tokens(3, {});
  for (const int64_t begin : {int64_t{-1}, int64_t{2}, INT64_MAX, INT64_MIN}) {
    error_of(ErrorKind::kInternal, [&] { shard.read_tokens(begin, two); });
  }
  for (const int64_t document : {int64_t{-1}, int64_t{1}, INT64_MAX}) {
    error_of(ErrorKind::kInternal, [&] { shard.document_end(document); });
    error_of(ErrorKind::kInternal, [&] { shard.raw_bytes(document); });
  }
}

TEST(TokenShard, MissingFileIsIo) {
  error_of(ErrorKind::kIo, [] { TokenShard("/nonexistent/shard", true); });
}

TEST(TokenShard, FullDiskIsIo) {
  const TemporaryFolder folder;
  fs::create_symlink("/dev/full", folder / "shard.tmp");
  error_of(ErrorKind::kIo, [&] { write_shard(folder / "shard", {{1}}, 10); });
  EXPECT_FALSE(fs::exists(folder / "shard"));
}

// A byte that changed is found when its block is first read, whatever the shard's size.
TEST(TokenShardBlocks, AreCheckedWhenTheyAreRead) {
  const TemporaryFolder folder;
  std::mt19937_64 random(9);
  const Documents documents = random_documents(random, 400, 1000);
  write_shard(folder / "shard", documents, 1000);
  constexpr uint64_t kByte = 40'000;
  const std::string byte = read_file(folder / "shard").substr(kByte, 1);
  const TokenShard shard(folder / "shard", false);
  overwrite_file(folder / "shard", kByte, byte == "\x01" ? "\x02" : "\x01");
  std::vector<int32_t> ids(100);
  shard.read_tokens(0, ids);
  const std::string said = error_of(ErrorKind::kData, [&] { shard.read_tokens(20'000, ids); });
  EXPECT_NE(said.find("the checksum of the blocks with bytes 40064 to 40264"), std::string::npos)
      << said;
}

TEST(TokenShardBlocks, AShardCutShortIsAnError) {
  handle_lost_pages();
  const TemporaryFolder folder;
  std::mt19937_64 random(10);
  write_shard(folder / "shard", random_documents(random, 400, 1000), 1000);
  const TokenShard shard(folder / "shard", false);
  truncate_file(folder / "shard", 0);
  std::vector<int32_t> ids(100);
  const std::string of_tokens = error_of(ErrorKind::kData, [&] { shard.read_tokens(20'000, ids); });
  EXPECT_NE(of_tokens.find("was cut short"), std::string::npos) << of_tokens;
  error_of(ErrorKind::kData, [&] { shard.document_size(399); });
}

TEST(TokenShard, WrittenToWhileItIsOpenIsAnError) {
  const TemporaryFolder folder;
  std::mt19937_64 random(12);
  const fs::path path = folder / "shard";
  write_shard(path, random_documents(random, 400, 1000), 1000);
  const std::string whole = read_file(path);
  const auto index = static_cast<uint64_t>(whole.size() - 400 * 16);
  const TokenShard shard(path, false);
  shard.require_unchanged();
  const auto time = fs::last_write_time(path);
  // Where its time is set back, an index that contradicts itself still shows.
  overwrite_file(path, index + 16 * 7, std::string(16, '\xFF'));
  fs::last_write_time(path, time);
  shard.require_unchanged();
  std::vector<int32_t> ids(10);
  const auto expect_index = [&](const std::function<void()>& request) {
    const std::string said = error_of(ErrorKind::kData, request);
    EXPECT_NE(said.find(path.string() + ": its index was written to"), std::string::npos) << said;
  };
  expect_index([&] { shard.document_end(7); });
  expect_index([&] { shard.document_begin(8); });
  expect_index([&] { shard.read_tokens(shard.num_tokens() - 5, ids); });
  // Else its time shows.
  overwrite_file(path, 0, whole);
  fs::last_write_time(path, time + std::chrono::seconds(1));
  const std::string said = error_of(ErrorKind::kData, [&] { shard.require_unchanged(); });
  EXPECT_NE(said.find("was written to since it was opened"), std::string::npos) << said;
  // One that was replaced or removed stays as it was opened.
  fs::rename(path, folder / "old");
  testing::replace_file(path, "another");
  shard.require_unchanged();
  fs::remove(path);
  shard.require_unchanged();
}

// Those of caches that were made before there were any.
TEST(TokenShardBlocks, AreSummedWhereTheyWereNot) {
  const TemporaryFolder folder;
  std::mt19937_64 random(11);
  write_shard(folder / "shard", random_documents(random, 400, 1000), 1000);
  const fs::path sums = block_sums_path(folder / "shard");
  const std::string whole = read_file(sums);
  fs::remove(sums);
  TokenShard(folder / "shard", true).write_missing_block_sums();
  EXPECT_EQ(read_file(sums), whole);
  testing::replace_file(sums, whole.substr(1));
  error_of(ErrorKind::kData, [&] { TokenShard(folder / "shard", false); });
}

}  // namespace
}  // namespace lmtrain
