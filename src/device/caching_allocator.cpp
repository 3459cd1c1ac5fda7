#include "device/caching_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace lmtrain {
namespace {

constexpr size_t kPage = size_t{4} << 10;
constexpr size_t kHugePage = size_t{2} << 20;

// Returns new pages, or null if there is no memory. A block of huge pages begins at one.
void* map_block(size_t bytes) {
  const size_t more = bytes >= kHugePage ? kHugePage : 0;
  void* const mapped =
      ::mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (more == 0) return mapped;
  auto* const begin = static_cast<std::byte*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + bytes, more - before);
  ::madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

c10::DataPtr CachingAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes < kSmallest) {
    void* const small = c10::alloc_cpu(bytes);
    return {small, small, &c10::free_cpu, cpu};
  }
  bytes = (bytes + kPage - 1) / kPage * kPage;
  const std::lock_guard lock(mutex_);
  void* block = nullptr;
  const auto fit = waiting_.lower_bound(bytes);
  if (fit != waiting_.end() &&
      static_cast<double>(fit->first) <= kLargestFit * static_cast<double>(bytes)) {
    bytes = fit->first;
    block = fit->second.back();
    fit->second.pop_back();
    if (fit->second.empty()) waiting_.erase(fit);
    bytes_waiting_ -= bytes;
  } else {
    const auto most = static_cast<double>(std::max(most_in_use_, in_use_ + bytes));
    while (!waiting_.empty() &&
           static_cast<double>(in_use_ + bytes_waiting_ + bytes) > kMostHeld * most)
      give_back_largest();
    block = map_block(bytes);
    while (block == nullptr && !waiting_.empty()) {
      give_back_largest();
      block = map_block(bytes);
    }
    TORCH_CHECK(block != nullptr, "CachingAllocator: you tried to allocate ", bytes,
                " bytes: can't allocate memory");
  }
  sizes_[block] = bytes;
  in_use_ += bytes;
  most_in_use_ = std::max(most_in_use_, in_use_);
  return {block, block, &put_back, cpu};
}

void CachingAllocator::put_back(void* block) {
  CachingAllocator& self = caching_allocator();
  const std::lock_guard lock(self.mutex_);
  const auto entry = self.sizes_.find(block);
  if (entry == self.sizes_.end()) {
    c10::free_cpu(block);
    return;
  }
  const size_t bytes = entry->second;
  self.sizes_.erase(entry);
  self.waiting_[bytes].push_back(block);
  self.in_use_ -= bytes;
  self.bytes_waiting_ += bytes;
}

void CachingAllocator::give_back_largest() {
  const auto largest = std::prev(waiting_.end());
  ::munmap(largest->second.back(), largest->first);
  bytes_waiting_ -= largest->first;
  largest->second.pop_back();
  if (largest->second.empty()) waiting_.erase(largest);
}

void CachingAllocator::release() {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty()) give_back_largest();
  most_in_use_ = in_use_;
}

size_t CachingAllocator::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

size_t CachingAllocator::bytes_waiting() const {
  const std::lock_guard lock(mutex_);
  return bytes_waiting_;
}

CachingAllocator& caching_allocator() {
  // Tensors may outlive the end of main().
  static auto* const allocator = new CachingAllocator;
  return *allocator;
}

void use_caching_allocator() { c10::SetCPUAllocator(&caching_allocator(), /*priority=*/1); }

}  // namespace lmtrain
