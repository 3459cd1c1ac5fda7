#include <cublasLt.h>
#include <dlfcn.h>

#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/cublas_lt.h"

namespace lmtrain::cuda {
namespace {

static_assert(sizeof(ProductAlgorithm) == sizeof(cublasLtMatmulAlgo_t));

// The functions of the library that are called.
struct LtCalls {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatmulDescDestroy) destroy_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoCheck) check;
  decltype(&cublasLtMatmul) multiply;

  void require(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw Error(ErrorKind::kInternal, str("cuBLASLt: ", what, ": ", status_name(status)));
  }
};

// Returns the name of a function that is missing; empty where all are there.
std::string find_calls(void* library, LtCalls& calls) {
  std::string missing;
  const auto find = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(::dlsym(library, name));
    if (call == nullptr && missing.empty()) missing = name;
  };
  find(calls.create, "cublasLtCreate");
  find(calls.destroy, "cublasLtDestroy");
  find(calls.version, "cublasLtGetVersion");
  find(calls.status_name, "cublasLtGetStatusName");
  find(calls.create_product, "cublasLtMatmulDescCreate");
  find(calls.set_product, "cublasLtMatmulDescSetAttribute");
  find(calls.destroy_product, "cublasLtMatmulDescDestroy");
  find(calls.create_layout, "cublasLtMatrixLayoutCreate");
  find(calls.destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(calls.create_preference, "cublasLtMatmulPreferenceCreate");
  find(calls.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(calls.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(calls.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(calls.check, "cublasLtMatmulAlgoCheck");
  find(calls.multiply, "cublasLtMatmul");
  return missing;
}

cudaDataType_t data_type(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return CUDA_R_32F;
    case ElementType::kBf16:
      return CUDA_R_16BF;
    case ElementType::kHalf:
      return CUDA_R_16F;
  }
  throw Error(ErrorKind::kInternal, "cuBLASLt: a matrix of no known type");
}

cublasLtMatmulAlgo_t restored(const ProductAlgorithm& bytes) {
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, bytes.data(), sizeof algorithm);
  return algorithm;
}

class LtProduct : public PreparedProduct {
 public:
  LtProduct(const LtCalls& calls, cublasLtHandle_t handle, const MatrixProduct& product)
      : calls_(calls), handle_(handle), factor_of_c_(product.adds ? 1.0F : 0.0F) {
    try {
      describe(product);
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~LtProduct() override { destroy(); }
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  std::vector<ProductAlgorithm> algorithms() const override {
    std::array<cublasLtMatmulHeuristicResult_t, kProductAlgorithms> results{};
    int count = 0;
    const cublasStatus_t status = calls_.heuristic(handle_, product_, a_, b_, c_, c_, preference_,
                                                   kProductAlgorithms, results.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    calls_.require(status, "the heuristic");
    std::vector<ProductAlgorithm> algorithms;
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
      if (result.state != CUBLAS_STATUS_SUCCESS) continue;
      std::memcpy(algorithms.emplace_back().data(), &result.algo, sizeof result.algo);
    }
    return algorithms;
  }

  std::optional<int64_t> workspace(const ProductAlgorithm& bytes) const override {
    const cublasLtMatmulAlgo_t algorithm = restored(bytes);
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status =
        calls_.check(handle_, product_, a_, b_, c_, c_, &algorithm, &result);
    if (status != CUBLAS_STATUS_SUCCESS) return std::nullopt;
    const auto needed = static_cast<int64_t>(result.workspaceSize);
    return needed <= kProductWorkspace ? std::optional(needed) : std::nullopt;
  }

  void multiply(const ProductAlgorithm& bytes, const void* a, const void* b, void* c,
                void* workspace, int64_t workspace_bytes, void* stream) const override {
    constexpr float kOne = 1;
    const cublasLtMatmulAlgo_t algorithm = restored(bytes);
    calls_.require(calls_.multiply(handle_, product_, &kOne, a, a_, b, b_, &factor_of_c_, c, c_, c,
                                   c_, &algorithm, workspace, static_cast<size_t>(workspace_bytes),
                                   static_cast<cudaStream_t>(stream)),
                   "a product");
  }

 private:
  void describe(const MatrixProduct& product) {
    calls_.require(calls_.create_product(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                   "the description of a product");
    transpose(CUBLASLT_MATMUL_DESC_TRANSA, product.a_transposed);
    transpose(CUBLASLT_MATMUL_DESC_TRANSB, product.b_transposed);
    describe_matrix(a_, product.operands, product.a_transposed, product.m, product.k);
    describe_matrix(b_, product.operands, product.b_transposed, product.k, product.n);
    describe_matrix(c_, product.result, /*transposed=*/false, product.m, product.n);
    calls_.require(calls_.create_preference(&preference_), "the preferences of a product");
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<size_t>(kProductWorkspace));
    // Beside CUBLASLT_REDUCTION_SCHEME_NONE, which is 0 and always allowed.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kMatrixAlignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kMatrixAlignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kMatrixAlignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kMatrixAlignment);
  }

  void transpose(cublasLtMatmulDescAttributes_t operand, bool transposed) {
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    calls_.require(calls_.set_product(product_, operand, &operation, sizeof operation),
                   "the operands of a product");
  }

  void describe_matrix(cublasLtMatrixLayout_t& layout, ElementType type, bool transposed,
                       int64_t rows, int64_t columns) {
    if (transposed) std::swap(rows, columns);
    calls_.require(calls_.create_layout(&layout, data_type(type), static_cast<uint64_t>(rows),
                                        static_cast<uint64_t>(columns), rows),
                   "the description of a matrix");
  }

  template <class T>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    calls_.require(calls_.set_preference(preference_, attribute, &value, sizeof value),
                   "the preferences of a product");
  }

  void destroy() {
    if (preference_ != nullptr) calls_.destroy_preference(preference_);
    for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
      if (layout != nullptr) calls_.destroy_layout(layout);
    }
    if (product_ != nullptr) calls_.destroy_product(product_);
  }

  const LtCalls& calls_;
  cublasLtHandle_t handle_;
  float factor_of_c_;  // 1 where the product is added to what is there
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

class LtLibrary : public MatmulLibrary {
 public:
  LtLibrary(const LtCalls& calls, cublasLtHandle_t handle) : calls_(calls), handle_(handle) {}
  ~LtLibrary() override { calls_.destroy(handle_); }
  LtLibrary(const LtLibrary&) = delete;
  LtLibrary& operator=(const LtLibrary&) = delete;

  int64_t version() const override { return static_cast<int64_t>(calls_.version()); }
  std::unique_ptr<PreparedProduct> prepare(const MatrixProduct& product) const override {
    return std::make_unique<LtProduct>(calls_, handle_, product);
  }

 private:
  LtCalls calls_;
  cublasLtHandle_t handle_;
};

}  // namespace

std::unique_ptr<MatmulLibrary> load_cublas_lt(const std::string& file, std::string& problem) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    problem = str("the library does not load: ", why == nullptr ? file : why);
    return nullptr;
  }
  LtCalls calls{};
  if (const std::string missing = find_calls(library, calls); !missing.empty()) {
    problem = str(file, " has no ", missing);
    return nullptr;
  }
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = calls.create(&handle); status != CUBLAS_STATUS_SUCCESS) {
    problem = str(file, " does not start: ", calls.status_name(status));
    return nullptr;
  }
  return std::make_unique<LtLibrary>(calls, handle);
}

}  // namespace lmtrain::cuda
