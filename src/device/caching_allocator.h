// The allocator of tensors on a CPU. A freed block waits for the next tensor that fits, as in
// libtorch's allocator of a GPU.
//
// Each step asks for the same sizes. A heap would put small tensors that outlive a pass into the
// places of large ones, which then need new pages: a third more memory after some steps. So the
// blocks are mapped beside the heap, with huge pages, which save TLB misses. Once little more may
// be held, a tensor takes a part of a larger block that waits, since new pages cost the time to
// clear them; freed parts of a block join again.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace lmtrain {

// Any thread may call it. There is one, caching_allocator(): every freed block goes there.
class CachingAllocator final : public c10::Allocator {
 public:
  // Bytes. libtorch's own allocator serves smaller tensors.
  static constexpr size_t kSmallest = size_t{1} << 20;
  // A tensor takes a waiting block of at most this multiple of its size.
  static constexpr double kLargestFit = 1.25;
  // The blocks in use, the waiting ones and a new one may take this multiple of the peak in use
  // since release(). Before they would take more, allocate() divides a waiting block, or if none is
  // large enough, gives waiting blocks back.
  static constexpr double kMostHeld = 1.1;

  // Throws c10::Error, like libtorch's own, if there is no memory after all waiting blocks are
  // freed.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &put_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  // Gives all waiting blocks back to the system; the peak in use begins anew.
  void release();
  // These return the bytes of the blocks that tensors have, and of the waiting blocks. A block
  // counts whole, however small its tensor.
  size_t bytes_in_use() const;
  size_t bytes_waiting() const;

 private:
  struct Block {
    std::byte* begin;
    size_t bytes;
    uint64_t mapping;  // the number of the mapping that holds the block
  };
  static void put_back(void* block);  // of any size
  // Returns whether `b` follows `a` in one mapping.
  static bool are_neighbours(const Block& a, const Block& b);
  // The functions below are called under the mutex.
  Block block_for(size_t bytes);
  Block map_new(size_t bytes);
  bool may_hold(size_t more) const;
  void begin_waiting(const Block& block);
  Block end_waiting(std::byte* begin);
  void give_back_largest();

  mutable std::mutex mutex_;
  std::unordered_map<void*, Block> used_;
  std::map<std::byte*, Block> waiting_;              // by address
  std::set<std::pair<size_t, std::byte*>> by_size_;  // the same blocks
  size_t in_use_ = 0, most_in_use_ = 0, bytes_waiting_ = 0;
  uint64_t mappings_ = 0;
};

// Returns the allocator of the process. use_caching_allocator() makes libtorch use it for new
// tensors on a CPU.
CachingAllocator& caching_allocator();
void use_caching_allocator();

}  // namespace lmtrain
