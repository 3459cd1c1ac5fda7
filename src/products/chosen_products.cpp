#include "products/chosen_products.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>

#include "base/elapsed.h"
#include "base/error.h"
#include "device/device_memory.h"
#include "device/dispatch.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

using cuda::ElementType;
using cuda::MatrixProduct;
using cuda::ProductAlgorithm;

struct ChosenProduct {
  std::shared_ptr<const cuda::PreparedProduct> prepared;
  ProductAlgorithm algorithm;
  int64_t workspace;  // bytes
};

// The products that the process knows. It is never destroyed: at the end of the program the driver
// may be gone before it.
struct ProductTable {
  std::mutex mutex;  // guards what is noted, and the loading of the library
  MatmulLibraryFile file;
  std::unique_ptr<cuda::MatmulLibrary> library;
  bool tried = false;
  std::string problem;  // why there is no library, once `tried`
  bool noting = false;
  std::set<MatrixProduct> noted;
  std::map<MatrixProduct, ChosenProduct> chosen;
  std::optional<ProductChoices> measured;
  std::atomic<bool> asked{false};  // something is chosen, or noted
};

ProductTable& table() {
  static auto& process = *new ProductTable;
  return process;
}

void note_that_it_is_asked() {
  ProductTable& all = table();
  all.asked = all.noting || !all.chosen.empty();
}

cuda::MatmulLibrary& loaded_library(const at::Device& device) {
  const std::string problem = why_no_chosen_products(device);
  if (!problem.empty()) throw Error(ErrorKind::kInternal, problem);
  return *table().library;
}

ElementType element_type(at::ScalarType type) {
  if (type == at::kFloat) return ElementType::kFloat;
  return type == at::kBFloat16 ? ElementType::kBf16 : ElementType::kHalf;
}

at::ScalarType scalar_type(ElementType type) {
  if (type == ElementType::kFloat) return at::kFloat;
  return type == ElementType::kBf16 ? at::kBFloat16 : at::kHalf;
}

// Whether the matrix, which cuBLAS reads column by column, is transposed for it: our rows are its
// columns. Nothing where there are gaps.
std::optional<bool> is_transposed(const at::Tensor& x) {
  if (x.is_contiguous()) return false;
  if (x.t().is_contiguous()) return true;
  return std::nullopt;
}

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % cuda::kMatrixAlignment == 0;
}

// The transposed product, of column by column: cuBLAS's A is our right operand.
std::optional<MatrixProduct> matrix_product(const at::Tensor& a_MK, const at::Tensor& b_KN,
                                            at::ScalarType result, bool adds) {
  const at::ScalarType type = a_MK.scalar_type();
  if (type != at::kBFloat16 && type != at::kHalf) return std::nullopt;
  if (a_MK.numel() == 0 || b_KN.numel() == 0) return std::nullopt;
  const std::optional<bool> a = is_transposed(a_MK), b = is_transposed(b_KN);
  if (!a || !b || !is_aligned(a_MK) || !is_aligned(b_KN)) return std::nullopt;
  return MatrixProduct{b_KN.size(1), a_MK.size(0),       a_MK.size(1),         *b,
                       *a,           element_type(type), element_type(result), adds};
}

// Returns the algorithm chosen for a product, or null. Notes the product where that is wanted.
const ChosenProduct* chosen_for(const at::Tensor& a_MK, const at::Tensor& b_KN,
                                at::ScalarType result, bool adds) {
  ProductTable& all = table();
  if (!all.asked || a_MK.device().type() != all.file.device) return nullptr;
  const std::optional<MatrixProduct> product = matrix_product(a_MK, b_KN, result, adds);
  if (!product) return nullptr;
  if (const std::lock_guard lock(all.mutex); all.noting) all.noted.insert(*product);
  const auto found = all.chosen.find(*product);
  return found == all.chosen.end() ? nullptr : &found->second;
}

// Queues c = a b, in cuBLAS's order of the operands, on the current stream.
void multiply(const ChosenProduct& by, const at::Tensor& a, const at::Tensor& b,
              const at::Tensor& c) {
  const c10::DeviceGuard guard(c.device());
  at::Tensor workspace;
  if (by.workspace > 0) workspace = at::empty({by.workspace}, c.options().dtype(at::kByte));
  by.prepared->multiply(by.algorithm, a.const_data_ptr(), b.const_data_ptr(), c.data_ptr(),
                        workspace.defined() ? workspace.data_ptr() : nullptr, by.workspace,
                        c.is_cuda() ? cuda_call(c).stream : nullptr);
}

class LibraryAlgorithms : public ProductAlgorithms {
 public:
  LibraryAlgorithms(cuda::MatmulLibrary& library, const at::Device& device)
      : library_(library), device_(device) {}

  std::vector<ProductAlgorithm> algorithms(const MatrixProduct& product) override {
    const c10::DeviceGuard guard(device_);
    try {
      a_MK_ = b_KN_ = c_MN_ = at::Tensor();
      prepared_ = library_.prepare(product);
      a_MK_ = random(product.n, product.k, product.b_transposed, product.operands);
      b_KN_ = random(product.k, product.m, product.a_transposed, product.operands);
      c_MN_ = random(product.n, product.m, /*transposed=*/false, product.result);
      return prepared_->algorithms();
    } catch (const std::exception&) {  // memory ran out, or the library knows no such product
      return {};
    }
  }

  std::optional<double> seconds(const MatrixProduct& product,
                                const ProductAlgorithm& algorithm) override {
    const c10::DeviceGuard guard(device_);
    constexpr double kMostTimes = 64;
    const double flops = 2.0 * static_cast<double>(product.m) * static_cast<double>(product.n) *
                         static_cast<double>(product.k);
    const int times =
        static_cast<int>(std::clamp(table().file.flops_at_once / flops, 1.0, kMostTimes));
    try {
      const std::optional<int64_t> workspace = prepared_->workspace(algorithm);
      if (!workspace) return std::nullopt;
      const ChosenProduct one{prepared_, algorithm, *workspace};
      // It also brings the code of a kernel to the GPU.
      if (!is_right(one, product.adds)) return std::nullopt;
      synchronize(device_);
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) multiply(one, b_KN_, a_MK_, c_MN_);
      synchronize(device_);
      return seconds_since(begin) / times;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

 private:
  // Random numbers: a product of equal ones is faster, since a GPU draws less power for it.
  at::Tensor random(int64_t rows, int64_t columns, bool transposed, ElementType type) const {
    const auto options = at::TensorOptions(device_).dtype(scalar_type(type));
    const auto sizes = transposed ? std::array{columns, rows} : std::array{rows, columns};
    const at::Tensor x = at::empty(sizes, options).uniform_(-1, 1);
    return transposed ? x.t() : x;
  }

  // Multiplies, and compares two corners of the product with libtorch's.
  bool is_right(const ChosenProduct& one, bool adds) {
    static constexpr int64_t kCorner = 64;
    constexpr double kTolerance = 1.0 / 32;  // of the largest number; bf16 rounds to 1/256
    const auto first = [](const at::Tensor& x, int64_t dim) {
      return x.narrow(dim, 0, std::min(kCorner, x.size(dim)));
    };
    const auto last = [](const at::Tensor& x, int64_t dim) {
      const int64_t size = std::min(kCorner, x.size(dim));
      return x.narrow(dim, x.size(dim) - size, size);
    };
    const auto corners = [&](const auto& part) { return part(part(c_MN_, 0), 1).to(at::kFloat); };
    const auto expected = [&](const auto& part) {
      const at::Tensor product =
          at::mm(part(a_MK_, 0).to(at::kFloat), part(b_KN_, 1).to(at::kFloat));
      return adds ? product + corners(part) : product;
    };
    if (adds) c_MN_.uniform_(-1, 1);  // or many products that were added before would hide this one
    const at::Tensor expected_first = expected(first), expected_last = expected(last);
    multiply(one, b_KN_, a_MK_, c_MN_);
    const auto agree = [&](const at::Tensor& of, const at::Tensor& found) {
      const double most = of.abs().max().item<double>();
      return (found - of).abs().max().item<double>() <= kTolerance * most;  // not NaN either
    };
    return agree(expected_first, corners(first)) && agree(expected_last, corners(last));
  }

  cuda::MatmulLibrary& library_;
  at::Device device_;
  std::shared_ptr<const cuda::PreparedProduct> prepared_;  // of the last call of algorithms()
  at::Tensor a_MK_, b_KN_, c_MN_;
};

}  // namespace

void use_matmul_library(const MatmulLibraryFile& library) {
  drop_chosen_products();
  const std::lock_guard lock(table().mutex);
  table().file = library;
  table().library.reset();
  table().tried = false;
  table().measured.reset();
}

std::string why_no_chosen_products(const at::Device& device) {
  ProductTable& all = table();
  const std::lock_guard lock(all.mutex);
  if (device.type() != all.file.device) return "algorithms are chosen on a GPU";
  if (!kHasCudaKernels) return "this program was built without GPU code";
  if (!all.tried) {
    all.tried = true;
    if constexpr (kHasCudaKernels) {
      const c10::DeviceGuard guard(device);
      all.library = cuda::load_cublas_lt(all.file.file, all.problem);
    }
  }
  return all.library != nullptr ? "" : all.problem;
}

int64_t matmul_library_version(const at::Device& device) {
  return loaded_library(device).version();
}

bool serves_product(const at::Device& device, const MatrixProduct& product,
                    const ProductAlgorithm& algorithm) {
  const c10::DeviceGuard guard(device);
  return loaded_library(device).prepare(product)->workspace(algorithm).has_value();
}

std::unique_ptr<ProductAlgorithms> library_algorithms(const at::Device& device) {
  return std::make_unique<LibraryAlgorithms>(loaded_library(device), device);
}

void use_products(const at::Device& device, const AlgorithmByProduct& algorithms) {
  const c10::DeviceGuard guard(device);
  const cuda::MatmulLibrary& library = loaded_library(device);
  std::map<MatrixProduct, ChosenProduct> chosen;
  for (const auto& [product, algorithm] : algorithms) {
    std::unique_ptr<cuda::PreparedProduct> prepared = library.prepare(product);
    const std::optional<int64_t> workspace = prepared->workspace(algorithm);
    if (!workspace)
      throw Error(ErrorKind::kInternal, "an algorithm that does not serve its product is chosen");
    chosen[product] = {std::move(prepared), algorithm, *workspace};
  }
  table().chosen = std::move(chosen);
  note_that_it_is_asked();
}

void drop_chosen_products() {
  table().chosen.clear();
  note_that_it_is_asked();
}

std::optional<ProductChoices>& measured_products() { return table().measured; }

NotedProducts::NotedProducts() {
  const std::lock_guard lock(table().mutex);
  table().noting = true;
  table().noted.clear();
  note_that_it_is_asked();
}

NotedProducts::~NotedProducts() {
  const std::lock_guard lock(table().mutex);
  table().noting = false;
  note_that_it_is_asked();
}

std::vector<MatrixProduct> NotedProducts::all() const {
  const std::lock_guard lock(table().mutex);
  return {table().noted.begin(), table().noted.end()};
}

bool multiply_as_chosen(const at::Tensor& a_MK, const at::Tensor& b_KN, const at::Tensor& c_MN,
                        bool adds) {
  if (!c_MN.is_contiguous() || !is_aligned(c_MN)) return false;
  const ChosenProduct* const chosen = chosen_for(a_MK, b_KN, c_MN.scalar_type(), adds);
  if (chosen != nullptr) multiply(*chosen, b_KN, a_MK, c_MN);
  return chosen != nullptr;
}

at::Tensor product_as_chosen(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const ChosenProduct* const chosen = chosen_for(a_MK, b_KN, a_MK.scalar_type(), /*adds=*/false);
  if (chosen == nullptr) return {};
  const at::Tensor c_MN = at::empty({a_MK.size(0), b_KN.size(1)}, a_MK.options());
  multiply(*chosen, b_KN, a_MK, c_MN);
  return c_MN;
}

}  // namespace lmtrain
