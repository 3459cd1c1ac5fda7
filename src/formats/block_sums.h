// A token shard is read in random order for days. A file beside the shard holds the CRC-32C of each
// block of 16 KiB, so that no byte is used unchecked (docs/formats/token_shard.md, "Checksums of
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
// Continues the sums of a file whose bytes are `bytes`: adds the sums of the next blocks to `sums`,
// up to the last block that ends at or before `end`. When `end` is the end of `bytes`, the last,
// shorter block is added too.
void add_block_sums(std::string_view bytes, uint64_t end, BlockSums& sums);

// Returns SHARD.sums, the path of the file with the checksums of a shard.
std::filesystem::path block_sums_path(const std::filesystem::path& shard);
// Writes the sums of each file that holds tokens of a shard to `path`, which block_sums_path()
// gives. That file is the shard itself; a reference has the sums of the files that it refers to. An
// old file is replaced atomically. Throws Error(kIo).
void write_block_sums(const std::filesystem::path& path, const std::vector<BlockSums>& files);
// Returns the sums of each file, in the order of write_block_sums(). Throws Error(kData) when the
// file at `path` is damaged, Error(kIo) when it is missing.
std::vector<BlockSums> read_block_sums(const std::filesystem::path& path);

// A BlockCheck compares a mapped file with its sums while it is read. Threads may share one.
class BlockCheck {
 public:
  // Without sums, holds() is always true.
  BlockCheck() = default;
  // Requires a sum for each block of the file.
  explicit BlockCheck(BlockSums sums);

  // Returns whether the blocks with bytes [begin, end) of `file`, the bytes of the whole file,
  // agree with their sums. A block is compared the first time that holds() asks for it. Every 16th
  // call compares all its blocks again, since another program may have written to the file
  // meanwhile.
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
