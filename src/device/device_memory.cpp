#include "device/device_memory.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "base/machine.h"
#include "device/caching_allocator.h"
#include "device/slotted_memory.h"

namespace lmtrain {
namespace {

constexpr auto kAllPools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::DeviceAllocator* allocator_of(const at::Device& device) {
  at::globalContext().lazyInitDevice(device.type());
  return c10::getDeviceAllocator(device.type());
}

}  // namespace

uint64_t peak_memory(const at::Device& device) {
  if (device.is_cpu()) return peak_resident_bytes();
  const auto stats = allocator_of(device)->getDeviceStats(device.index());
  return static_cast<uint64_t>(stats.allocated_bytes[kAllPools].peak) + slotted_bytes();
}

void reset_peak_memory(const at::Device& device) {
  if (device.is_cpu()) {
    caching_allocator().release();
    reset_peak_resident();
    return;
  }
  auto* allocator = allocator_of(device);
  allocator->emptyCache();
  allocator->resetPeakStats(device.index());
}

std::optional<uint64_t> available_memory(const at::Device& device) {
  if (device.is_cpu()) {
    std::optional<uint64_t> available = available_bytes();
    if (available) *available += caching_allocator().bytes_waiting();
    return available;
  }
  auto* allocator = allocator_of(device);
  const auto stats = allocator->getDeviceStats(device.index());
  // The driver knows nothing of what the allocator keeps for later.
  const int64_t kept =
      stats.reserved_bytes[kAllPools].current - stats.allocated_bytes[kAllPools].current;
  return allocator->getMemoryInfo(device.index()).first + static_cast<uint64_t>(kept);
}

void synchronize(const at::Device& device) {
  if (!device.is_cpu()) at::detail::getCUDAHooks().deviceSynchronize(device.index());
}

}  // namespace lmtrain
