#include "device/caching_allocator.h"

#include <gtest/gtest.h>

#include <vector>

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
  const void* block = nullptr;
  {
    const c10::DataPtr data = allocator.allocate(8 * kMiB);
    block = data.get();
    EXPECT_EQ(allocator.bytes_in_use(), before + 8 * kMiB);
    EXPECT_EQ(allocator.bytes_waiting(), 0U);
  }
  EXPECT_EQ(allocator.bytes_in_use(), before);
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
