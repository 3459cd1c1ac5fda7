// Checksums of the blocks of a file that is read here and there for days, so that no byte of it is
// used unchecked: CRC-32C of each 16 KiB (docs/formats/token_shard.md, third part). They lie in a
// file of their own beside the shard that they are for.
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

// The checksum of each block of a file; the last block may be shorter.
using BlockSums = std::vector<uint32_t>;
constexpr uint64_t num_sum_blocks(uint64_t file_size) {
  return (file_size + kSumBlockBytes - 1) / kSumBlockBytes;
}
BlockSums sum_blocks(std::string_view bytes);
// Adds the sums of the blocks of `bytes` that lie behind those of `sums` and end at or before
// `end`; also that of the last block when `end` is the end of `bytes`.
void add_block_sums(std::string_view bytes, uint64_t end, BlockSums& sums);

// SHARD.sums
std::filesystem::path block_sums_path(const std::filesystem::path& shard);
// The sums of one or several files, replaced atomically.
void write_block_sums(const std::filesystem::path& path, const std::vector<BlockSums>& files);
// Error(kData) for a file that is damaged.
std::vector<BlockSums> read_block_sums(const std::filesystem::path& path);

// Holds a mapped file to its sums while it is read. May be shared by threads.
class BlockCheck {
 public:
  // Every byte holds: there are no sums.
  BlockCheck() = default;
  // Requires a sum for each block of the file.
  explicit BlockCheck(BlockSums sums);

  // Whether the blocks that hold bytes [begin, end) of `file` agree with their sums. A block is
  // looked at when it is first asked for, and in every 16th call again, since another program may
  // have written to the file since.
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
