// Host memory of flat tensors whose pages exist only once they are written, and can be given back
// to the system.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lmtrain {

// Returns a one-dimensional tensor of `numel` >= 1 zeros in host memory. A page takes memory from
// its first write until it is released. Throws Error(kMemory) if the address space has no room.
at::Tensor releasable_zeros(int64_t numel, at::ScalarType dtype);
// Gives back the memory of all whole pages within `range`, a contiguous view of such a tensor;
// their elements become 0. Elements on a page that is only partly in `range` keep their values.
// Throws Error(kInternal) if the system refuses.
void release_pages(const at::Tensor& range);

}  // namespace lmtrain
