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
std::byte* map_pages(size_t bytes) {
  const size_t more = bytes >= kHugePage ? kHugePage : 0;
  void* const mapped =
      ::mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  if (more == 0) return begin;
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
  const std::lock_guard lock(mutex_);
  const Block block = block_for((bytes + kPage - 1) / kPage * kPage);
  used_[block.begin] = block;
  in_use_ += block.bytes;
  most_in_use_ = std::max(most_in_use_, in_use_);
  return {block.begin, block.begin, &put_back, cpu};
}

CachingAllocator::Block CachingAllocator::block_for(size_t bytes) {
  const auto fit = by_size_.lower_bound({bytes, nullptr});
  if (fit == by_size_.end()) return map_new(bytes);
  const auto most = static_cast<size_t>(kLargestFit * static_cast<double>(bytes));
  if (fit->first > most && may_hold(bytes)) return map_new(bytes);
  Block block = end_waiting(fit->second);
  if (block.bytes > most && block.bytes - bytes >= kSmallest) {
    begin_waiting({block.begin + bytes, block.bytes - bytes, block.mapping});
    block.bytes = bytes;
  }
  return block;
}

CachingAllocator::Block CachingAllocator::map_new(size_t bytes) {
  while (!waiting_.empty() && !may_hold(bytes)) give_back_largest();
  std::byte* begin = map_pages(bytes);
  while (begin == nullptr && !waiting_.empty()) {
    give_back_largest();
    begin = map_pages(bytes);
  }
  TORCH_CHECK(begin != nullptr, "CachingAllocator: you tried to allocate ", bytes,
              " bytes: can't allocate memory");
  return {begin, bytes, ++mappings_};
}

bool CachingAllocator::may_hold(size_t more) const {
  const auto most = static_cast<double>(std::max(most_in_use_, in_use_ + more));
  return static_cast<double>(in_use_ + bytes_waiting_ + more) <= kMostHeld * most;
}

void CachingAllocator::put_back(void* block) {
  CachingAllocator& self = caching_allocator();
  const std::lock_guard lock(self.mutex_);
  const auto entry = self.used_.find(block);
  if (entry == self.used_.end()) {
    c10::free_cpu(block);
    return;
  }
  Block freed = entry->second;
  self.used_.erase(entry);
  self.in_use_ -= freed.bytes;
  const auto after = self.waiting_.upper_bound(freed.begin);
  if (after != self.waiting_.end() && are_neighbours(freed, after->second))
    freed.bytes += self.end_waiting(after->first).bytes;
  const auto next = self.waiting_.upper_bound(freed.begin);
  if (next != self.waiting_.begin()) {
    const Block before = std::prev(next)->second;
    if (are_neighbours(before, freed)) {
      freed = {before.begin, before.bytes + freed.bytes, freed.mapping};
      self.end_waiting(before.begin);
    }
  }
  self.begin_waiting(freed);
}

bool CachingAllocator::are_neighbours(const Block& a, const Block& b) {
  return a.mapping == b.mapping && a.begin + a.bytes == b.begin;
}

void CachingAllocator::begin_waiting(const Block& block) {
  waiting_[block.begin] = block;
  by_size_.emplace(block.bytes, block.begin);
  bytes_waiting_ += block.bytes;
}

CachingAllocator::Block CachingAllocator::end_waiting(std::byte* begin) {
  const auto entry = waiting_.find(begin);
  const Block block = entry->second;
  waiting_.erase(entry);
  by_size_.erase({block.bytes, begin});
  bytes_waiting_ -= block.bytes;
  return block;
}

void CachingAllocator::give_back_largest() {
  const Block block = end_waiting(by_size_.rbegin()->second);
  ::munmap(block.begin, block.bytes);
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
