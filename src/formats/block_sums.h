// A run reads a token shard in random order for days. A file beside the shard holds the CRC-32C of
// each block of 16 KiB, so that every byte is checked (docs/formats/token_shard.md, "Checksums of
// blocks").
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace lmtrain {

inline constexpr uint64_t kSumBlockBytes = uint64_t{16} << 10;

// BlockSums holds the checksum of each block of a file, in order; the last block may be shorter.
using BlockSums = std::vector<uint32_t>;
constexpr uint64_t num_sum_blocks(uint64_t file_size) {
  return (file_size + kSumBlockBytes - 1) / kSumBlockBytes;
}
// Returns the sums of a whole file.
BlockSums sum_blocks(std::string_view bytes);
// Adds to `sums`, which has the sums of the first blocks of `bytes`, the sums of the next blocks
// that end at or before `end`. Where `end` is the size of `bytes`, the last, shorter block counts
// too.
void add_block_sums(std::string_view bytes, uint64_t end, BlockSums& sums);

// Returns SHARD.sums, the path of the file with the checksums of a shard.
std::filesystem::path block_sums_path(const std::filesystem::path& shard);
// Replaces the file `path`, which block_sums_path() gives, atomically. `files` has the sums of each
// file with tokens: of the shard itself, or of all files that a token reference names. Throws
// Error(kIo).
void write_block_sums(const std::filesystem::path& path, const std::vector<BlockSums>& files);
// Returns the sums as write_block_sums() got them. Throws Error(kData) when the file at `path` is
// damaged, Error(kIo) when it is missing.
std::vector<BlockSums> read_block_sums(const std::filesystem::path& path);

// A BlockCheck compares blocks of a mapped file with their sums, after a read. Threads may share
// it.
class BlockCheck {
 public:
  // Without sums, holds() is always true.
  BlockCheck() = default;
  // Requires a sum for each block of the file.
  explicit BlockCheck(BlockSums sums);

  // Returns whether the blocks that hold bytes [begin, end) agree with their sums. `file` is the
  // whole file, and `end` at most its size. The first call for a block compares it. Every 16th call
  // compares all its blocks again, since another program may have written to the file meanwhile.
  bool holds(std::string_view file, uint64_t begin, uint64_t end) const;

 private:
  static constexpr uint64_t kAgainEvery = 16;
  struct Shared {
    std::atomic<uint64_t> calls = 0;
    std::vector<std::atomic<bool>> is_checked;  // by block
  };
  BlockSums sums_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace lmtrain
