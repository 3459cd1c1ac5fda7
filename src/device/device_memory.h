// The memory of the device that computes: of this process on a CPU, of libtorch's allocator on a
// GPU. Bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace lmtrain {

// At most since the last reset: what the process occupied on a CPU, what tensors occupied on a GPU.
uint64_t peak_memory(const at::Device& device);
// Gives back what is held unused, and begins peak_memory() anew.
void reset_peak_memory(const at::Device& device);
// How many bytes may still be asked for, where that is known. On a GPU this includes what the
// allocator holds unused.
std::optional<uint64_t> available_memory(const at::Device& device);
// Says that tensors are about to take so many bytes. On a CPU huge pages are asked for; on a GPU
// nothing happens.
void expect_memory(const at::Device& device, uint64_t bytes);
// Returns when everything queued on the device is done.
void synchronize(const at::Device& device);

}  // namespace lmtrain
