// Measures the memory of a device, in bytes. On a CPU it counts the memory of this process, on a
// GPU the memory of libtorch's allocator. A GPU must have an index, such as cuda:0.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace lmtrain {

// Returns the peak since the last reset of what the process occupied on a CPU, or of what tensors
// occupied on a GPU.
uint64_t peak_memory(const at::Device& device);
// Gives unused memory back: on a CPU from the heap to the system, on a GPU from the allocator to
// the driver. The peak of peak_memory() then begins anew.
void reset_peak_memory(const at::Device& device);
// Returns how many bytes may still be asked for, where that is known. On a GPU this includes what
// the allocator holds unused.
std::optional<uint64_t> available_memory(const at::Device& device);
// Announces that tensors will take so many bytes. On a CPU huge pages are asked for
// (prefer_huge_pages of base/machine.h, after configure_runtime); on a GPU nothing happens.
void expect_memory(const at::Device& device, uint64_t bytes);
// Returns when everything queued on the device is done.
void synchronize(const at::Device& device);

}  // namespace lmtrain
