// Multiplies matrices on a GPU by cuBLASLt, with an algorithm that the caller names: raw pointers,
// sizes and a stream, no torch. The library is loaded, not linked, so that the program starts
// without it; its version decides what the bytes of an algorithm mean.
//
// Matrices are as cuBLAS has them, column by column without gaps. Sums are fp32 until they are
// whole: no algorithm that rounds the parts of a sum to the type of the result is ever returned.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/kernels.h"

namespace lmtrain::cuda {

// A MatrixProduct is what decides the bits of C = A B, or with `adds` of C = C + A B, beside the
// algorithm: C is m x n, and the sums have k terms. A transposed operand is in memory as the
// transpose of A or B. A and B are of the type `operands`, bf16 or fp16, and C is of that type or
// fp32.
struct MatrixProduct {
  int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;
  ElementType operands = ElementType::kBf16, result = ElementType::kBf16;
  bool adds = false;
  auto operator<=>(const MatrixProduct&) const = default;
};

// A ProductAlgorithm is a cublasLtMatmulAlgo_t: it "can be trivially serialized and later restored
// for use with the same version of cuBLAS library" (cublasLt.h).
using ProductAlgorithm = std::array<uint8_t, 64>;

// Every matrix must begin at a multiple of so many bytes, and the workspace at one of 256.
inline constexpr uint32_t kMatrixAlignment = 16;
// The most memory that an algorithm may use beside the matrices, in bytes.
inline constexpr int64_t kProductWorkspace = int64_t{32} << 20;
// How many algorithms of the heuristic are considered.
inline constexpr int kProductAlgorithms = 8;

// A PreparedProduct holds the library's descriptions of a product, so that each call need not make
// them. Its functions may be called by several threads at once. They throw Error(kInternal) where
// the library refuses.
class PreparedProduct {
 public:
  virtual ~PreparedProduct() = default;
  // Returns algorithms for the current device, at most kProductAlgorithms, in the order of the time
  // that the library expects. None: it knows none.
  virtual std::vector<ProductAlgorithm> algorithms() const = 0;
  // Returns the bytes of workspace that an algorithm needs, at most kProductWorkspace; nothing
  // where it does not serve this product on the current device.
  virtual std::optional<int64_t> workspace(const ProductAlgorithm& algorithm) const = 0;
  // Queues the product on `stream`, a cudaStream_t. `workspace` has `bytes` bytes, at least those
  // that the algorithm needs, and may be null where that is 0.
  virtual void multiply(const ProductAlgorithm& algorithm, const void* a, const void* b, void* c,
                        void* workspace, int64_t bytes, void* stream) const = 0;
};

// A MatmulLibrary is cuBLASLt with a handle for the device that was current when it was loaded.
class MatmulLibrary {
 public:
  virtual ~MatmulLibrary() = default;
  virtual int64_t version() const = 0;  // 130100 is 13.1.0
  // Throws Error(kInternal) where the library refuses. What is returned needs this object.
  virtual std::unique_ptr<PreparedProduct> prepare(const MatrixProduct& product) const = 0;
};

// Loads `file`, a path or a name such as "libcublasLt.so.13"; the one that libtorch has loaded
// under that name is taken. Returns null, and in `problem` why, where it does not load, lacks a
// function, or has no handle for the device. The file stays loaded.
std::unique_ptr<MatmulLibrary> load_cublas_lt(const std::string& file, std::string& problem);

}  // namespace lmtrain::cuda
