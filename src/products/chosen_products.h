// The algorithms by which this process multiplies matrices on its GPU: chosen once, before the
// first step, and kept with the run (docs/decisions/algorithms-of-products-are-chosen-once.md).
//
// ops/matmul.h asks here for every product. As long as nothing is chosen or noted, and for a
// product without a choice, it computes as if all this were not there. Choices are one table for
// the process. It must change only while nothing is multiplied.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/cublas_lt.h"
#include "products/choose_algorithm.h"
#include "products/product_choices.h"

namespace lmtrain {

// Which library multiplies, and on which devices. Tests give a stand-in.
struct MatmulLibraryFile {
  std::string file = "libcublasLt.so.13";
  at::DeviceType device = at::kCUDA;
  // A product is repeated until a measurement has so many: some milliseconds of a GPU, since one
  // alone may take less than its launch.
  double flops_at_once = 1e12;
};
// Takes this library from now on, drops all choices, and forgets what was measured.
void use_matmul_library(const MatmulLibraryFile& library);

// Returns why algorithms cannot be chosen on a device; empty where they can. Loads the library at
// the first call. A GPU must have an index, such as cuda:0.
std::string why_no_chosen_products(const at::Device& device);

// The functions that follow need an empty why_no_chosen_products() of the device.

// Returns the version of the library.
int64_t matmul_library_version(const at::Device& device);
// Returns whether an algorithm serves a product on the device.
bool serves_product(const at::Device& device, const cuda::MatrixProduct& product,
                    const cuda::ProductAlgorithm& algorithm);
// Returns the library's algorithms for products of random numbers on the device, and their times.
// An algorithm fails where its product is not libtorch's, in two corners of the result, to some per
// cent: that finds a library that understands the operands otherwise than this program. A product
// whose operands do not fit into memory has no algorithms.
std::unique_ptr<ProductAlgorithms> library_algorithms(const at::Device& device);

using AlgorithmByProduct = std::map<cuda::MatrixProduct, cuda::ProductAlgorithm>;
// Makes products of the device's tensors take these algorithms from now on, which must serve them,
// in the place of those before.
void use_products(const at::Device& device, const AlgorithmByProduct& algorithms);
// Makes every product as if there were no choices.
void drop_chosen_products();

// The choices that this process has measured. A process measures a product once, so that the ways
// of a check of resume, or the trials of a random restart, give the bits of one another.
std::optional<ProductChoices>& measured_products();

// While one lives, the products that could be chosen for are noted, whichever thread computes
// them. There must be one at a time.
class NotedProducts {
 public:
  NotedProducts();
  ~NotedProducts();
  NotedProducts(const NotedProducts&) = delete;
  NotedProducts& operator=(const NotedProducts&) = delete;

  // Returns each once.
  std::vector<cuda::MatrixProduct> all() const;
};

// Computes c_MN = a_MK b_KN, or c_MN + a_MK b_KN if `adds`, by the algorithm that was chosen, and
// returns whether there was one. a and b are of one dtype, and c of the same or fp32. Autograd
// records nothing. Throws Error(kInternal) where the library refuses what it accepted before.
bool multiply_as_chosen(const at::Tensor& a_MK, const at::Tensor& b_KN, const at::Tensor& c_MN,
                        bool adds);
// Returns a_MK b_KN in their dtype where an algorithm was chosen for it; else an undefined tensor.
at::Tensor product_as_chosen(const at::Tensor& a_MK, const at::Tensor& b_KN);

}  // namespace lmtrain
