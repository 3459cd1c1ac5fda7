// Muon and SOAP update matrices of one shape together, as one batch of matrix products.
#pragma once

#include <cstdint>

namespace lmtrain {

// Returns whether `matrices` matrices of rows x columns may be one batch. The limit keeps the
// scratch memory of a batch small.
inline bool fits_in_batch(int64_t matrices, int64_t rows, int64_t columns) {
  constexpr int64_t kMaxElements = int64_t{1} << 25;
  return matrices * rows * columns <= kMaxElements;
}

}  // namespace lmtrain
