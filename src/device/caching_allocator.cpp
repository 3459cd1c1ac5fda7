#include "device/caching_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace lmtrain {

c10::DataPtr CachingAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes < kSmallest) {
    void* const small = c10::alloc_cpu(bytes);
    return {small, small, &c10::free_cpu, cpu};
  }
  const std::lock_guard lock(mutex_);
  void* block = nullptr;
  const auto same = waiting_.find(bytes);
  if (same != waiting_.end()) {
    block = same->second.back();
    same->second.pop_back();
    if (same->second.empty()) waiting_.erase(same);
    bytes_waiting_ -= bytes;
  } else {
    const auto most = std::max(most_in_use_, in_use_ + bytes);
    if (static_cast<double>(in_use_ + bytes_waiting_ + bytes) >
        kMostHeld * static_cast<double>(most))
      give_back_waiting();
    try {
      block = c10::alloc_cpu(bytes);
    } catch (const c10::Error&) {
      give_back_waiting();
      block = c10::alloc_cpu(bytes);
    }
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

void CachingAllocator::give_back_waiting() {
  for (const auto& [bytes, blocks] : waiting_)
    for (void* block : blocks) c10::free_cpu(block);
  waiting_.clear();
  bytes_waiting_ = 0;
}

void CachingAllocator::release() {
  const std::lock_guard lock(mutex_);
  give_back_waiting();
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
