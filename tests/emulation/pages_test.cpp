// Memory and addresses apart from each other, by an emulated driver.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "cuda.h"
#include "kernels/cuda/kernels.h"

namespace lmtrain::emulated {
namespace {

TEST(Pages, OneMemoryIsThereAtTwoAddresses) {
  const int64_t page = cuda::page_bytes();
  ASSERT_GT(page, 0);
  const size_t before = emulation::memory_in_use();
  auto* const at = static_cast<char*>(cuda::reserve_addresses(3 * page));
  const uint64_t shared = cuda::create_pages(page);
  const uint64_t own = cuda::create_pages(page);
  cuda::map_pages(at, shared, page);
  cuda::map_pages(at + page, own, page);
  cuda::map_pages(at + 2 * page, shared, page);
  cuda::allow_access(at, 3 * page);
  std::memset(at, 1, static_cast<size_t>(2 * page));
  EXPECT_EQ(at[2 * page], 1);
  at[3 * page - 1] = 7;
  EXPECT_EQ(at[page - 1], 7);
  EXPECT_EQ(at[2 * page - 1], 1) << "its own memory";
  EXPECT_EQ(emulation::memory_in_use() - before, static_cast<size_t>(2 * page));
  for (const int64_t first : {int64_t{0}, page, 2 * page}) cuda::unmap_pages(at + first, page);
  cuda::free_addresses(at, 3 * page);
  cuda::destroy_pages(shared);
  cuda::destroy_pages(own);
  EXPECT_EQ(emulation::memory_in_use(), before);
}

TEST(Pages, RefusalsAreErrors) {
  const int64_t page = cuda::page_bytes();
  EXPECT_THROW(cuda::reserve_addresses(page + 1), Error);
  auto* const at = static_cast<char*>(cuda::reserve_addresses(2 * page));
  EXPECT_THROW(cuda::allow_access(at, page), Error) << "nothing is mapped";
  const uint64_t memory = cuda::create_pages(page);
  cuda::map_pages(at, memory, page);
  EXPECT_THROW(cuda::map_pages(at, memory, page), Error);
  EXPECT_THROW(cuda::free_addresses(at, 2 * page), Error) << "something is mapped";
  cuda::unmap_pages(at, page);
  EXPECT_THROW(cuda::unmap_pages(at, page), Error);
  cuda::free_addresses(at, 2 * page);
  cuda::destroy_pages(memory);

  const size_t limit = emulation::set_memory_limit(emulation::memory_in_use());
  try {
    cuda::create_pages(page);
    ADD_FAILURE() << "there is no memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMemory);
    EXPECT_NE(std::string(error.what()).find("out of memory on the GPU"), std::string::npos);
  }
  emulation::set_memory_limit(limit);
}

}  // namespace
}  // namespace lmtrain::emulated
