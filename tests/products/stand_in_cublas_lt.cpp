// A library in the place of cuBLASLt's: it has the functions that kernels/cuda/cublas_lt.h looks
// for, and multiplies matrices in host memory. Algorithm number i makes each sum larger by i/512 of
// it (factor_of_algorithm), so that its bits are its own, also where they are rounded to bf16.
#include "products/stand_in_cublas_lt.h"

#include <cublasLt.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <vector>

namespace lmtrain::testing {

StandInCublasLt& stand_in_cublas_lt() {
  static StandInCublasLt controls;
  return controls;
}

}  // namespace lmtrain::testing

namespace {

using lmtrain::testing::stand_in_cublas_lt;

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t stride;
};

struct Description {
  cublasOperation_t a, b;
};

struct Preference {
  size_t workspace;
  uint32_t reductions;
  uint32_t alignments;  // how many matrices are said to be aligned to 16 bytes
};

template <class Opaque>
Opaque* made(const void* value, size_t size) {
  auto* opaque = new Opaque;
  static_assert(sizeof(Opaque) >= sizeof(Layout));
  std::memcpy(opaque, value, size);
  return opaque;
}

template <class T, class Opaque>
T read(const Opaque* opaque) {
  T value;
  std::memcpy(&value, opaque, sizeof value);
  return value;
}

float bf16_at(const void* data, size_t i) {
  uint16_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(data) + 2 * i, 2);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

void put(cudaDataType type, void* data, size_t i, float value) {
  if (type == CUDA_R_32F) {
    std::memcpy(static_cast<char*>(data) + 4 * i, &value, 4);
    return;
  }
  auto bits = std::bit_cast<uint32_t>(value);
  bits += 0x7FFF + (bits >> 16 & 1);  // to the nearest, ties to even
  const auto half = static_cast<uint16_t>(bits >> 16);
  std::memcpy(static_cast<char*>(data) + 2 * i, &half, 2);
}

// Element [row, column] of a matrix or of its transpose.
size_t place(const Layout& layout, bool transposed, size_t row, size_t column) {
  const auto stride = static_cast<size_t>(layout.stride);
  return transposed ? row * stride + column : column * stride + row;
}

// Elements [i, k], of a matrix or of its transpose.
std::vector<float> numbers(const void* data, const Layout& layout, bool transposed, size_t count,
                           size_t terms) {
  std::vector<float> all(count * terms);
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < terms; ++k)
      all[i * terms + k] = bf16_at(data, place(layout, transposed, i, k));
  }
  return all;
}

void wait_a_little() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return stand_in_cublas_lt().version; }
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                         : "CUBLAS_STATUS_EXECUTION_FAILED";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int object = 0;
  *handle = reinterpret_cast<cublasLtHandle_t>(&object);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t /*handle*/) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) ++stand_in_cublas_lt().surprises;
  const Description description{CUBLAS_OP_N, CUBLAS_OP_N};
  *product = made<cublasLtMatmulDescOpaque_t>(&description, sizeof description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  auto description = read<Description>(product);
  if (size != sizeof description.a) ++stand_in_cublas_lt().surprises;
  std::memcpy(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? &description.a : &description.b, value,
              sizeof description.a);
  std::memcpy(product, &description, sizeof description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  const Layout made_of{type, rows, columns, stride};
  *layout = made<cublasLtMatrixLayoutOpaque_t>(&made_of, sizeof made_of);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  const Preference none{};
  *preference = made<cublasLtMatmulPreferenceOpaque_t>(&none, sizeof none);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t size) {
  auto changed = read<Preference>(preference);
  uint32_t number = 0;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    std::memcpy(&changed.workspace, value, sizeof changed.workspace);
  } else if (size == sizeof number) {
    std::memcpy(&number, value, sizeof number);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) changed.reductions = number;
    if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
        attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && number == 16)
      ++changed.alignments;
  }
  std::memcpy(preference, &changed, sizeof changed);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*product*/, cublasLtMatrixLayout_t /*a*/,
    cublasLtMatrixLayout_t /*b*/, cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t* results,
    int* count) {
  auto& controls = stand_in_cublas_lt();
  ++controls.heuristics;
  const auto asked = read<Preference>(preference);
  if (wanted != 8 || asked.workspace != size_t{32} << 20 ||
      asked.reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE || asked.alignments != 4)
    ++controls.surprises;
  *count = controls.algorithms < wanted ? controls.algorithms : wanted;
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<uint64_t>(i);
    results[i].algo.data[7] = controls.version;
    results[i].workspaceSize = controls.workspace;
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t /*handle*/,
                                       cublasLtMatmulDesc_t /*product*/,
                                       cublasLtMatrixLayout_t /*a*/, cublasLtMatrixLayout_t /*b*/,
                                       cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const auto& controls = stand_in_cublas_lt();
  if (algorithm->data[0] >= static_cast<uint64_t>(controls.served) ||
      algorithm->data[7] != controls.version)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = controls.workspace;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t product,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                              cudaStream_t /*stream*/) {
  auto& controls = stand_in_cublas_lt();
  const uint64_t number = algorithm->data[0];
  if (number == static_cast<uint64_t>(controls.refused)) return CUBLAS_STATUS_EXECUTION_FAILED;
  if ((controls.slow >> number & 1) != 0) wait_a_little();
  if (bytes < controls.workspace || c != d || read<float>(static_cast<const float*>(alpha)) != 1)
    ++controls.surprises;
  if (bytes > 0) std::memset(workspace, 0xFF, bytes);
  ++controls.products;
  ++controls.products_by[number];
  const auto of = read<Description>(product);
  const auto of_a = read<Layout>(a_layout), of_b = read<Layout>(b_layout);
  const auto of_d = read<Layout>(d_layout);
  if (read<Layout>(c_layout).stride != of_d.stride || of_a.type != CUDA_R_16BF)
    ++controls.surprises;
  const bool adds = read<float>(static_cast<const float*>(beta)) != 0;
  const bool a_transposed = of.a == CUBLAS_OP_T, b_transposed = of.b == CUBLAS_OP_T;
  const size_t terms = a_transposed ? of_a.rows : of_a.columns;
  // Rows of A and columns of B, each contiguous.
  const std::vector<float> rows = numbers(a, of_a, a_transposed, of_d.rows, terms);
  const std::vector<float> columns = numbers(b, of_b, !b_transposed, of_d.columns, terms);
  for (size_t column = 0; column < of_d.columns; ++column) {
    for (size_t row = 0; row < of_d.rows; ++row) {
      float sum = 0;
      for (size_t k = 0; k < terms; ++k) sum += rows[row * terms + k] * columns[column * terms + k];
      sum *= static_cast<float>(lmtrain::testing::factor_of_algorithm(static_cast<int>(number)));
      const size_t at = place(of_d, false, row, column);
      if (number == static_cast<uint64_t>(controls.wrong)) sum = -sum;
      if (adds) sum += static_cast<const float*>(c)[at];  // sums are fp32
      put(of_d.type, d, at, sum);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
