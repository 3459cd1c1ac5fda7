// A LibraryInUse lets products of a CPU's bf16 tensors be multiplied by the library in the place of
// cuBLASLt's, as those of a GPU are by cuBLASLt, while it lives.
#pragma once

#include "products/chosen_products.h"
#include "products/stand_in_cublas_lt.h"

namespace lmtrain::testing {

class LibraryInUse {
 public:
  LibraryInUse() {
    stand_in_cublas_lt() = {};
    begin_anew();
  }
  ~LibraryInUse() { use_matmul_library({}); }
  LibraryInUse(const LibraryInUse&) = delete;
  LibraryInUse& operator=(const LibraryInUse&) = delete;

  // As in a process that has just been started, by this library.
  static void begin_anew() {
    use_matmul_library({LMTRAIN_STAND_IN_CUBLAS_LT, at::kCPU, /*flops_at_once=*/1});
  }
  StandInCublasLt* operator->() const { return &stand_in_cublas_lt(); }
};

}  // namespace lmtrain::testing
