#include "device/caching_allocator.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/machine.h"
#include "device/failure.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Tensors of the process have the allocator here too, so all counts are differences.
class CachingAllocatorTest : public ::testing::Test {
 protected:
  void SetUp() override { allocator.release(); }
  void TearDown() override { allocator.release(); }
  CachingAllocator& allocator = caching_allocator();
};

TEST_F(CachingAllocatorTest, ABlockWaitsForATensorOfItsSize) {
  const size_t before = allocator.bytes_in_use();
  const c10::DataPtr other = allocator.allocate(64 * kMiB);
  const void* block = nullptr;
  {
    const c10::DataPtr data = allocator.allocate(8 * kMiB);
    block = data.get();
    EXPECT_EQ(allocator.bytes_in_use(), before + 72 * kMiB);
    EXPECT_EQ(allocator.bytes_waiting(), 0U);
  }
  EXPECT_EQ(allocator.bytes_in_use(), before + 64 * kMiB);
  EXPECT_EQ(allocator.bytes_waiting(), 8 * kMiB);
  {
    const c10::DataPtr smaller = allocator.allocate(2 * kMiB);
    EXPECT_EQ(allocator.bytes_waiting(), 8 * kMiB)
        << "a large place is not taken by a small tensor";
    const c10::DataPtr same = allocator.allocate(8 * kMiB);
    EXPECT_EQ(same.get(), block);
    EXPECT_EQ(allocator.bytes_waiting(), 0U);
  }
  allocator.release();
  EXPECT_EQ(allocator.bytes_waiting(), 0U);
}

TEST_F(CachingAllocatorTest, ABlockServesATensorThatIsALittleSmaller) {
  const void* const block = allocator.allocate(8 * kMiB).get();
  const size_t before = allocator.bytes_in_use();
  const c10::DataPtr smaller = allocator.allocate(7 * kMiB);
  EXPECT_EQ(smaller.get(), block);
  EXPECT_EQ(allocator.bytes_in_use(), before + 8 * kMiB);
  EXPECT_EQ(allocator.bytes_waiting(), 0U);
}

// Kibibytes of the block's addresses for which the system was asked for huge pages.
uint64_t preferred_in(const void* block) {
  const auto address = reinterpret_cast<uintptr_t>(block);
  std::ifstream maps("/proc/self/smaps");
  uint64_t size = 0;
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      is_here = begin <= address && address < end;
    if (line.starts_with("Size:")) size = std::stoull(line.substr(5));
    if (is_here && line.starts_with("VmFlags:"))
      return line.find(" hg") == std::string::npos ? 0 : size;
  }
  return 0;
}

TEST_F(CachingAllocatorTest, ABlockLiesInHugePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "none here";
  const uint64_t resident = resident_bytes();
  const c10::DataPtr data = allocator.allocate(64 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data.get()) % (2 * kMiB), 0U);
  EXPECT_GE(preferred_in(data.get()), 64 * kMiB / 1024);
  EXPECT_LT(resident_bytes(), resident + 4 * kMiB) << "touched";
}

TEST_F(CachingAllocatorTest, MoreThanThereIsIsAnError) {
  const size_t before = allocator.bytes_in_use();
  try {
    static_cast<void>(allocator.allocate(size_t{1} << 60));
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_EQ(describe_failure(error).kind, ErrorKind::kMemory);
  }
  EXPECT_EQ(allocator.bytes_in_use(), before);
}

TEST_F(CachingAllocatorTest, SmallTensorsAreLibtorchs) {
  const size_t before = allocator.bytes_in_use();
  const c10::DataPtr data = allocator.allocate(CachingAllocator::kSmallest - 1);
  EXPECT_NE(data.get(), nullptr);
  EXPECT_EQ(allocator.bytes_in_use(), before);
}

// libtorch, and tests, free what they hold without its DataPtr.
TEST_F(CachingAllocatorTest, TheRawDeleterTakesBlocksOfAnySize) {
  const size_t before = allocator.bytes_in_use();
  void* const small = allocator.raw_allocate(100);
  void* const large = allocator.raw_allocate(2 * kMiB);
  EXPECT_EQ(allocator.bytes_in_use(), before + 2 * kMiB);
  allocator.raw_deallocate(small);
  allocator.raw_deallocate(large);
  EXPECT_EQ(allocator.bytes_in_use(), before);
  EXPECT_EQ(allocator.bytes_waiting(), 2 * kMiB);
}

TEST_F(CachingAllocatorTest, WhatWaitsIsGivenBackBeforeMuchMoreIsHeld) {
  const size_t before = allocator.bytes_in_use();
  const auto use = [&](size_t size, size_t count) {
    std::vector<c10::DataPtr> blocks;
    for (size_t i = 0; i < count; ++i) blocks.push_back(allocator.allocate(size));
  };
  use(4 * kMiB, 16);
  EXPECT_EQ(allocator.bytes_waiting(), 64 * kMiB);
  use(3 * kMiB, 16);
  const auto most = static_cast<double>(before + 64 * kMiB);
  EXPECT_LE(static_cast<double>(allocator.bytes_in_use() + allocator.bytes_waiting()),
            CachingAllocator::kMostHeld * most);
  // The same again needs nothing new.
  const size_t waiting = allocator.bytes_waiting();
  use(3 * kMiB, 16);
  EXPECT_EQ(allocator.bytes_waiting(), waiting);
}

TEST_F(CachingAllocatorTest, TensorsHaveIt) {
  use_caching_allocator();
  const size_t before = allocator.bytes_in_use();
  {
    const at::Tensor tensor = at::full({static_cast<int64_t>(kMiB)}, 1.0, at::kFloat);
    EXPECT_EQ(allocator.bytes_in_use(), before + 4 * kMiB);
    EXPECT_EQ(tensor.sum().item<double>(), 1048576.0);
    EXPECT_EQ(tensor.clone().sum().item<double>(), 1048576.0);
  }
  EXPECT_EQ(allocator.bytes_in_use(), before);
}

}  // namespace
}  // namespace lmtrain
