// Host memory of flat tensors whose pages exist only once they are written, and can be given back
// to the system.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lmtrain {

// Returns `numel` zeros in host memory, one-dimensional. A page of them takes memory from when it
// is written until it is released. Throws Error(kMemory) where there is no room for the addresses.
at::Tensor releasable_zeros(int64_t numel, at::ScalarType dtype);
// Gives back the memory of all pages that lie within `range`, a contiguous view of such a tensor:
// their values are zero afterwards. What shares a page with elements outside keeps its value.
void release_pages(const at::Tensor& range);

}  // namespace lmtrain
