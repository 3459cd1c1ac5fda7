// Measures the memory of the device that computes, in bytes: that of this process on a CPU, that of
// libtorch's allocator on a GPU, which must have an index, such as cuda:0.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace lmtrain {

// Returns the peak since the last reset of what the process occupied on a CPU, or of what tensors
// occupied on a GPU.
uint64_t peak_memory(const at::Device& device);
// Gives back the memory that is held unused, on a CPU that of the heap to the system, on a GPU that
// of the allocator to the driver. Then makes peak_memory() begin anew.
void reset_peak_memory(const at::Device& device);
// Returns how many bytes may still be asked for, where that is known. On a GPU this includes what
// the allocator holds unused.
std::optional<uint64_t> available_memory(const at::Device& device);
// Announces that tensors will take so many bytes. On a CPU huge pages are asked for
// (prefer_huge_pages of base/memory.h, after configure_runtime); on a GPU nothing happens.
void expect_memory(const at::Device& device, uint64_t bytes);
// Returns when everything queued on the device is done.
void synchronize(const at::Device& device);

}  // namespace lmtrain
