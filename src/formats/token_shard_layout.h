// The layout of a token shard, which its reader and writer share (docs/formats/token_shard.md). All
// numbers are little-endian.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lmtrain {

static_assert(std::endian::native == std::endian::little,
              "shards are read and written as they lie");

inline constexpr std::array<char, 8> kShardMagic = {'L', 'M', 'T', 'S', 'H', 'A', 'R', 'D'};
inline constexpr uint32_t kShardVersion = 1;
inline constexpr uint64_t kShardLargestVocabulary = uint64_t{1} << 31;
inline constexpr uint64_t kShardIndexEntryBytes = 16;

struct ShardHeader {
  std::array<char, 8> magic = kShardMagic;
  uint32_t version = kShardVersion;
  uint32_t bytes_per_token = 0;
  uint64_t vocab_size = 0;
  uint64_t num_documents = 0;
  uint64_t num_tokens = 0;
  uint32_t index_crc = 0;
  uint32_t tokens_crc = 0;
  std::array<uint8_t, 12> reserved{};  // zero
  uint32_t header_crc = 0;             // over the 60 bytes before
};
static_assert(sizeof(ShardHeader) == 64 && std::is_trivially_copyable_v<ShardHeader>);
inline constexpr size_t kShardHeaderCrcOffset = offsetof(ShardHeader, header_crc);
static_assert(kShardHeaderCrcOffset == 60);

// A token reference (token_reference.h) has this header, then the table of its files, then an
// index.
inline constexpr std::array<char, 8> kReferenceMagic = {'L', 'M', 'T', 'T', 'O', 'K', 'R', 'F'};
inline constexpr uint32_t kReferenceVersion = 1;
inline constexpr uint64_t kReferenceEntryBytes = 32;

struct ReferenceHeader {
  std::array<char, 8> magic = kReferenceMagic;
  uint32_t version = kReferenceVersion;
  uint32_t num_files = 0;
  uint64_t vocab_size = 0;
  uint64_t num_documents = 0;
  uint64_t num_tokens = 0;
  uint64_t table_bytes = 0;
  uint32_t table_crc = 0;
  uint32_t index_crc = 0;
  uint32_t reserved = 0;
  uint32_t header_crc = 0;  // over the 60 bytes before
};
static_assert(sizeof(ReferenceHeader) == 64 && std::is_trivially_copyable_v<ReferenceHeader>);
static_assert(offsetof(ReferenceHeader, header_crc) == kShardHeaderCrcOffset);

constexpr uint32_t shard_bytes_per_token(uint64_t vocab_size) {
  return vocab_size <= 65536 ? 2 : 4;
}
// Returns the number of zero bytes between tokens and index, which is aligned to 8.
constexpr uint64_t shard_padding(uint64_t token_bytes) { return (8 - token_bytes % 8) % 8; }

}  // namespace lmtrain
