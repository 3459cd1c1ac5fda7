// The allocator of tensors on a CPU. A block that is freed waits for the next tensor of its size,
// as in libtorch's allocator of a GPU.
//
// A step asks for the same sizes as the step before it. A heap would put small tensors that outlive
// a pass into the places of large ones, and would need new pages for these in the next step: a
// fifth more memory after some steps.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace lmtrain {

// Any thread may call it.
class CachingAllocator final : public c10::Allocator {
 public:
  // Smaller tensors are libtorch's own allocator's.
  static constexpr size_t kSmallest = size_t{1} << 20;
  // Waiting blocks are given back where they would raise the memory that is held to more than this
  // multiple of the most that was ever in use.
  static constexpr double kMostHeld = 1.25;

  // Throws c10::Error, as libtorch's own does, when the system has no memory even after waiting
  // blocks were given back.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &put_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  // Gives all waiting blocks back to the heap, and forgets how much was in use before.
  void release();
  // Return the bytes of the blocks that tensors have, and of the waiting blocks.
  size_t bytes_in_use() const;
  size_t bytes_waiting() const;

 private:
  static void put_back(void* block);  // of any size
  void give_back_waiting();           // under the mutex

  mutable std::mutex mutex_;
  std::unordered_map<void*, size_t> sizes_;       // of the blocks in use
  std::map<size_t, std::vector<void*>> waiting_;  // by their size
  size_t in_use_ = 0, most_in_use_ = 0, bytes_waiting_ = 0;
};

// Returns the allocator of the process. Tensors have it from use_caching_allocator() on.
CachingAllocator& caching_allocator();
void use_caching_allocator();

}  // namespace lmtrain
