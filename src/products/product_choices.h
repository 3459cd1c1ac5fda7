// The part of the training state that says by which algorithm each product of matrices is computed
// on a GPU. It needs no libtorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lmtrain {

// A ProductChoice is a product (MatrixProduct of kernels/cuda/cublas_lt.h) and its algorithm, as
// texts (products/product_text.h).
struct ProductChoice {
  int64_t m = 0, n = 0, k = 0;
  std::string kind;       // "TN bf16 fp32+"
  std::string algorithm;  // 128 hexadecimal digits
  bool operator==(const ProductChoice&) const = default;
};

// The bytes of an algorithm mean something to one version of cuBLASLt, and times were measured on
// one device, for micro-batches of one size: choices hold for these alone.
struct ProductChoices {
  int64_t library = 0;       // version of cuBLASLt
  std::string device;        // as device_description (device/device.h) names it
  int64_t micro_tokens = 0;  // batch.micro_tokens
  std::vector<ProductChoice> chosen;
  bool operator==(const ProductChoices&) const = default;
};

// Returns what is wrong with choices that were read from a file, beginning with the key, such as
// "chosen[2].algorithm is not 128 hexadecimal digits"; empty where nothing is.
std::string problem_of(const ProductChoices& choices);

}  // namespace lmtrain
