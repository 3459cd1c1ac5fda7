// SHARD.sums, the checksums of the blocks of a shard: as it is, and with its own checksums mended.
#include "formats/block_sums.h"

#include <cstring>

#include "base/hash.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {
namespace {

constexpr size_t kHeaderBytes = 32;  // it ends with the checksums of what follows, and its own

void put_crc(std::string& bytes, size_t at, std::string_view of) {
  const uint32_t crc = crc32c(0, of.data(), of.size());
  std::memcpy(bytes.data() + at, &crc, sizeof crc);
}

}  // namespace

LMTRAIN_FUZZ_TARGET(block_sums) {
  std::string summed(input);
  if (summed.size() >= kHeaderBytes) {
    put_crc(summed, kHeaderBytes - 8, std::string_view(summed).substr(kHeaderBytes));
    put_crc(summed, kHeaderBytes - 4, std::string_view(summed).substr(0, kHeaderBytes - 4));
  }
  for (const std::string& bytes : {std::string(input), summed}) {
    const std::filesystem::path path = write_scratch("x.sums", bytes);
    std::vector<BlockSums> sums;
    if (!accepts([&] { sums = read_block_sums(path); })) continue;
    write_block_sums(path, sums);
    require(read_block_sums(path) == sums, "checksums that are written read as others");
  }
}

}  // namespace lmtrain::fuzzing
