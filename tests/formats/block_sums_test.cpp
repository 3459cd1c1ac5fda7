#include "formats/block_sums.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/support.h"
#include "formats/damage.h"

namespace lmtrain {
namespace {

using testing::error_of;

std::string random_bytes(size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST(BlockSums, AddedBitByBitAreTheSame) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{kSumBlockBytes}, size_t{100'000}}) {
    const std::string bytes = random_bytes(size);
    BlockSums sums;
    for (size_t end = 0; end < size; end += 7001) add_block_sums(bytes, end, sums);
    add_block_sums(bytes, size, sums);
    EXPECT_EQ(sums, sum_blocks(bytes)) << size;
    EXPECT_EQ(sums.size(), num_sum_blocks(size)) << size;
  }
}

TEST(BlockSums, AreReadAsTheyWereWritten) {
  const testing::TemporaryFolder folder;
  const std::vector<BlockSums> files = {{1, 2, 3}, {}, sum_blocks(random_bytes(50'000))};
  write_block_sums(folder / "sums", files);
  EXPECT_EQ(read_block_sums(folder / "sums"), files);
  const std::string whole = read_file(folder / "sums");
  testing::for_each_damage(whole, whole.size(), [&](const std::string& bytes, const std::string&) {
    testing::replace_file(folder / "sums", bytes);
    error_of(ErrorKind::kData, [&] { read_block_sums(folder / "sums"); });
  });
}

TEST(BlockCheck, EachBlockWhenItIsFirstAskedFor) {
  const std::string bytes = random_bytes(5 * kSumBlockBytes + 10);
  for (size_t bad = 0; bad < bytes.size(); bad += 4099) {
    const BlockCheck check(sum_blocks(bytes));
    std::string changed = bytes;
    changed[bad] = static_cast<char>(changed[bad] ^ 1);
    for (size_t begin = 0; begin < bytes.size(); begin += 1000) {
      const size_t end = std::min(begin + 1000, bytes.size());
      const bool has_bad = begin / kSumBlockBytes <= bad / kSumBlockBytes &&
                           bad / kSumBlockBytes <= (end - 1) / kSumBlockBytes;
      EXPECT_EQ(check.holds(changed, begin, end), !has_bad) << bad << " " << begin;
    }
  }
}

TEST(BlockCheck, AChangeBehindItsBackIsFoundInAFewCalls) {
  std::string bytes = random_bytes(3 * kSumBlockBytes);
  const BlockCheck check(sum_blocks(bytes));
  EXPECT_TRUE(check.holds(bytes, 0, bytes.size()));
  bytes[kSumBlockBytes + 5] = static_cast<char>(bytes[kSumBlockBytes + 5] ^ 1);
  int calls = 1;
  while (check.holds(bytes, kSumBlockBytes, kSumBlockBytes + 20)) ASSERT_LT(++calls, 17);
  EXPECT_TRUE(check.holds(bytes, 0, 20)) << "another block";
}

TEST(BlockCheck, WithoutSumsEverythingHolds) {
  EXPECT_TRUE(BlockCheck().holds("bytes", 0, 5));
  EXPECT_TRUE(BlockCheck(sum_blocks("")).holds("", 0, 0));
}

}  // namespace
}  // namespace lmtrain
