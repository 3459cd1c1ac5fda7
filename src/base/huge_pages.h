// An allocator for tables of megabytes that are read in random order. It asks the system for pages
// of 2 MiB, so that reads miss the TLB less often. Any thread may use it. Throws std::bad_alloc.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace lmtrain {

template <class T>
struct HugePageAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): the standard asks for it
  HugePageAllocator() = default;
  template <class Other>
  explicit HugePageAllocator(const HugePageAllocator<Other>&) {}
  bool operator==(const HugePageAllocator&) const { return true; }

  T* allocate(size_t count) {
    const size_t size = count * sizeof(T);
    const size_t alignment = size < kPage ? std::max(alignof(T), alignof(std::max_align_t)) : kPage;
    const size_t rounded = (size + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, rounded);
    if (memory == nullptr) throw std::bad_alloc();
    if (alignment == kPage) ::madvise(memory, rounded, MADV_HUGEPAGE);  // a refusal costs speed
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t /*count*/) { std::free(memory); }

 private:
  static constexpr size_t kPage = size_t{2} << 20;
};

}  // namespace lmtrain
