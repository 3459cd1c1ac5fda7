// Measures the memory of a device, in bytes: of this process on a CPU, of libtorch's allocator on a
// GPU. A GPU must have an index, such as cuda:0.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace lmtrain {

// Returns the peak since the last reset of what the process occupied on a CPU, or of what tensors
// occupied on a GPU.
uint64_t peak_memory(const at::Device& device);
// Gives unused memory back, from CachingAllocator and heap to the system, or from the allocator of
// a GPU to the driver. peak_memory() then begins anew.
void reset_peak_memory(const at::Device& device);
// Returns how many bytes can still be allocated; nothing if that is not known. On a GPU they
// include what the allocator holds unused.
std::optional<uint64_t> available_memory(const at::Device& device);
// Returns when all work queued on the device is done; at once on a CPU.
void synchronize(const at::Device& device);

}  // namespace lmtrain
