#include "formats/block_sums.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/read_file.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic = {'L', 'M', 'T', 'B', 'S', 'U', 'M', 'S'};
constexpr uint32_t kVersion = 1;
// Room for the sums of 64 TiB.
constexpr uint64_t kLargestFile = uint64_t{16} << 30;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t num_files = 0;
  uint64_t block_bytes = kSumBlockBytes;
  uint32_t body_crc = 0;
  uint32_t header_crc = 0;  // of the 28 bytes before
};
static_assert(sizeof(Header) == 32);
constexpr size_t kHeaderCrcOffset = offsetof(Header, header_crc);
static_assert(kHeaderCrcOffset == 28);

[[noreturn]] void fail_block_sums(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kData, str(shown(path), ": ", what,
                                    "; the list of checksums is damaged: delete it and the shard "
                                    "beside it, and prepare the data again"));
}

std::string_view block_at(std::string_view file, uint64_t block) {
  return file.substr(block * kSumBlockBytes, kSumBlockBytes);
}

uint32_t sum_of(std::string_view block) { return crc32c(0, block.data(), block.size()); }

}  // namespace

BlockSums sum_blocks(std::string_view bytes) {
  BlockSums sums;
  sums.reserve(num_sum_blocks(bytes.size()));
  add_block_sums(bytes, bytes.size(), sums);
  return sums;
}

void add_block_sums(std::string_view bytes, uint64_t end, BlockSums& sums) {
  const uint64_t count = end == bytes.size() ? num_sum_blocks(end) : end / kSumBlockBytes;
  while (sums.size() < count) sums.push_back(sum_of(block_at(bytes, sums.size())));
}

fs::path block_sums_path(const fs::path& shard) { return with_suffix(shard, ".sums"); }

void write_block_sums(const fs::path& path, const std::vector<BlockSums>& files) {
  std::string body;
  for (const BlockSums& sums : files) {
    const uint64_t count = sums.size();
    body += object_bytes(count);
    body.append(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(uint32_t));
  }
  Header header{.num_files = static_cast<uint32_t>(files.size()),
                .body_crc = crc32c(0, body.data(), body.size())};
  header.header_crc = crc32c(0, &header, kHeaderCrcOffset);
  write_file_atomic(path, std::string(object_bytes(header)) + body);
}

std::vector<BlockSums> read_block_sums(const fs::path& path) {
  const std::string bytes = read_file(path, kLargestFile);
  Header header;
  if (bytes.size() < sizeof header) fail_block_sums(path, "is shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic || header.header_crc != crc32c(0, bytes.data(), kHeaderCrcOffset))
    fail_block_sums(path, "the header's checksum does not hold");
  if (header.version != kVersion || header.block_bytes != kSumBlockBytes)
    fail_block_sums(path,
                    str("is of version ", header.version, " with blocks of ", header.block_bytes,
                        " bytes, and version ", kVersion, " with ", kSumBlockBytes, " is read"));
  std::string_view body = std::string_view(bytes).substr(sizeof header);
  if (header.body_crc != crc32c(0, body.data(), body.size()))
    fail_block_sums(path, "its own checksum does not hold");
  std::vector<BlockSums> files;
  for (uint32_t i = 0; i < header.num_files; ++i) {
    uint64_t count = 0;
    if (body.size() < sizeof count) fail_block_sums(path, "is cut short");
    std::memcpy(&count, body.data(), sizeof count);
    body.remove_prefix(sizeof count);
    if (count > body.size() / sizeof(uint32_t)) fail_block_sums(path, "is cut short");
    BlockSums& sums = files.emplace_back(count);
    if (count > 0) std::memcpy(sums.data(), body.data(), count * sizeof(uint32_t));
    body.remove_prefix(count * sizeof(uint32_t));
  }
  if (!body.empty()) fail_block_sums(path, "holds more than its header says");
  return files;
}

BlockCheck::BlockCheck(BlockSums sums)
    : sums_(std::move(sums)), shared_(std::make_unique<Shared>()) {
  shared_->is_checked = std::vector<std::atomic<bool>>(sums_.size());
}

bool BlockCheck::holds(std::string_view file, uint64_t begin, uint64_t end) const {
  if (!shared_ || begin >= end) return true;
  const uint64_t call = shared_->calls.fetch_add(1, std::memory_order_relaxed);
  const bool all = call % kAgainEvery == kAgainEvery - 1;
  for (uint64_t block = begin / kSumBlockBytes; block <= (end - 1) / kSumBlockBytes; ++block) {
    std::atomic<bool>& is_checked = shared_->is_checked[block];
    if (!all && is_checked.load(std::memory_order_relaxed)) continue;
    if (sum_of(block_at(file, block)) != sums_[block]) return false;
    is_checked.store(true, std::memory_order_relaxed);
  }
  return true;
}

}  // namespace lmtrain
