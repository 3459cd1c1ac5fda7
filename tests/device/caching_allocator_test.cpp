#include "device/caching_allocator.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
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

// Logits are the largest tensor of a step. If the backward's tensors cost their pages, the next
// step would have to clear new ones.
TEST_F(CachingAllocatorTest, PartsOfALargeBlockServeWhereMoreMayNotBeHeld) {
  const size_t before = allocator.bytes_in_use();
  const void* const large = allocator.allocate(64 * kMiB).get();  // freed at once
  for (int step = 0; step < 3; ++step) {
    std::vector<c10::DataPtr> parts;
    for (const size_t size : {6 * kMiB, 8 * kMiB, 16 * kMiB, 20 * kMiB}) {
      parts.push_back(allocator.allocate(size));
      std::memset(parts.back().get(), step, size);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto* const bytes = static_cast<const char*>(parts[i].get());
      EXPECT_EQ(bytes[0], step) << i;
      EXPECT_EQ(bytes[6 * kMiB - 1], step) << i;
    }
    const size_t held = allocator.bytes_in_use() + allocator.bytes_waiting() - before;
    EXPECT_LE(held, 71 * kMiB);
    // In whatever order they are freed, the parts are one block again.
    std::swap(parts[1], parts[static_cast<size_t>(1 + step)]);
    parts.clear();
    EXPECT_EQ(allocator.allocate(64 * kMiB).get(), large) << step;
  }
  EXPECT_EQ(allocator.bytes_in_use(), before);
}

// Blocks of random sizes and lives.
TEST_F(CachingAllocatorTest, BlocksNeverOverlap) {
  const size_t before = allocator.bytes_in_use();
  std::mt19937 random(1);
  std::vector<std::pair<c10::DataPtr, size_t>> used;
  std::map<const char*, size_t> ranges;
  for (int i = 0; i < 4000; ++i) {
    if (used.size() < 40 && random() % 2 == 0) {
      const size_t size = kMiB + random() % (random() % 8 == 0 ? 40 * kMiB : 3 * kMiB);
      used.emplace_back(allocator.allocate(size), size);
      const auto* const begin = static_cast<const char*>(used.back().first.get());
      const auto next = ranges.lower_bound(begin);
      if (next != ranges.end()) {
        ASSERT_LE(begin + size, next->first) << i;
      }
      if (next != ranges.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, begin) << i;
      }
      ranges[begin] = size;
    } else if (!used.empty()) {
      const size_t which = random() % used.size();
      ranges.erase(static_cast<const char*>(used[which].first.get()));
      std::swap(used[which], used.back());
      used.pop_back();
    }
  }
  used.clear();
  EXPECT_EQ(allocator.bytes_in_use(), before);
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
