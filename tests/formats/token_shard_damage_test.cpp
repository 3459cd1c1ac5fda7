// Damaged shards: verified, every damage is found; unverified, what is read stays in bounds.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/support.h"
#include "formats/damage.h"
#include "formats/token_shard.h"
#include "formats/token_shard_layout.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

std::string sample_shard(const TemporaryFolder& folder, int64_t vocab_size) {
  std::mt19937_64 random(5);
  TokenShardWriter writer(folder / "whole", vocab_size);
  for (int document = 0; document < 20; ++document) {
    std::vector<int32_t> ids(random() % 150);
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
    }
    writer.add_document(ids, random() % 1000);
  }
  writer.add_document(std::vector<int32_t>(writer.num_tokens() % 4 == 0 ? 1 : 4), 0);
  writer.finish();
  return read_file(folder / "whole");
}

TEST(TokenShardDamage, AnyIsFoundWhenVerified) {
  const TemporaryFolder folder;
  for (const int64_t vocab_size : {300, 70'000}) {
    const std::string whole = sample_shard(folder, vocab_size);
    testing::for_each_damage(
        whole, sizeof(ShardHeader), [&](const std::string& bytes, const std::string& what) {
          SCOPED_TRACE(what);
          testing::replace_file(folder / "shard", bytes);
          const std::string message =
              error_of(ErrorKind::kData, [&] { TokenShard(folder / "shard", true); });
          EXPECT_NE(message.find((folder / "shard").string()), std::string::npos) << message;
        });
  }
}

TEST(TokenShardDamage, UnverifiedReadsStayInBounds) {
  const TemporaryFolder folder;
  const std::string whole = sample_shard(folder, 300);
  int opened = 0;
  testing::for_each_damage(
      whole, sizeof(ShardHeader), [&](const std::string& bytes, const std::string& what) {
        SCOPED_TRACE(what);
        testing::replace_file(folder / "shard", bytes);
        try {
          const TokenShard shard(folder / "shard", false);
          ++opened;
          for (int64_t document = 0; document < shard.num_documents(); ++document) {
            std::vector<int32_t> ids(static_cast<size_t>(shard.document_size(document)));
            shard.read_tokens(shard.document_begin(document), ids);
            for (const int32_t id : ids) ASSERT_TRUE(id >= 0 && id < shard.vocab_size());
          }
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
        }
      });
  EXPECT_GT(opened, 0);
}

// Headers that lie under a checksum that holds: what a fuzzer or an attacker would write.
TEST(TokenShardDamage, SealedHeadersThatLieAreRefused) {
  const TemporaryFolder folder;
  const std::string whole = sample_shard(folder, 300);
  const auto refused = [&](auto&& change) {
    ShardHeader header;
    std::memcpy(&header, whole.data(), sizeof header);
    change(header);
    header.header_crc = crc32c(0, &header, kShardHeaderCrcOffset);
    std::string bytes = whole;
    std::memcpy(bytes.data(), &header, sizeof header);
    testing::replace_file(folder / "shard", bytes);
    error_of(ErrorKind::kData, [&] { TokenShard(folder / "shard", true); });
  };
  refused([](ShardHeader& header) { header.magic[0] = 'X'; });
  refused([](ShardHeader& header) { header.version = 2; });
  for (const uint32_t width : {0U, 1U, 3U, 4U, 0xFFFFFFFFU}) {
    refused([&](ShardHeader& header) { header.bytes_per_token = width; });
  }
  for (const uint64_t size : {uint64_t{0}, uint64_t{1} << 32, ~uint64_t{0}, uint64_t{1}}) {
    refused([&](ShardHeader& header) { header.vocab_size = size; });
  }
  for (const uint64_t count :
       {uint64_t{0}, uint64_t{1}, uint64_t{1} << 60, uint64_t{1} << 63, ~uint64_t{0}}) {
    refused([&](ShardHeader& header) { header.num_tokens = count; });
    refused([&](ShardHeader& header) { header.num_documents = count; });
  }
  refused([](ShardHeader& header) { header.reserved[5] = 1; });
  refused([](ShardHeader& header) { header.index_crc ^= 1; });
  refused([](ShardHeader& header) { header.tokens_crc ^= 1; });
}

TEST(TokenShardDamage, SealedIndexesThatLieAreRefused) {
  const TemporaryFolder folder;
  const std::string whole = sample_shard(folder, 300);
  ShardHeader header;
  std::memcpy(&header, whole.data(), sizeof header);
  const size_t index_begin = whole.size() - header.num_documents * kShardIndexEntryBytes;
  for (const uint64_t document : {uint64_t{0}, uint64_t{7}, header.num_documents - 1}) {
    for (const uint64_t end : {header.num_tokens + 1, uint64_t{1} << 63, ~uint64_t{0}}) {
      std::string bytes = whole;
      std::memcpy(bytes.data() + index_begin + document * kShardIndexEntryBytes, &end, sizeof end);
      header.index_crc = crc32c(0, bytes.data() + index_begin, bytes.size() - index_begin);
      header.header_crc = crc32c(0, &header, kShardHeaderCrcOffset);
      std::memcpy(bytes.data(), &header, sizeof header);
      testing::replace_file(folder / "shard", bytes);
      error_of(ErrorKind::kData, [&] { TokenShard(folder / "shard", false); });
    }
  }
}

// Two shards of one folder may have as many blocks.
TEST(TokenShardDamage, ChecksumsOfAnotherShardAreNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    TokenShardWriter writer(folder / name, 300);
    writer.add_document(std::vector<int32_t>{1, 2, name[0]}, 3);
    writer.finish();
  }
  const auto sums = block_sums_path(folder / "a");
  testing::replace_file(sums, read_file(block_sums_path(folder / "b")));
  const std::string message =
      error_of(ErrorKind::kData, [&] { TokenShard(folder / "a", /*verify_tokens=*/true); });
  EXPECT_NE(message.find(sums.string()), std::string::npos) << message;
}

}  // namespace
}  // namespace lmtrain
