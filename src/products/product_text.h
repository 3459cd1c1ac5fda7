// Products and algorithms as texts, for state.json and between processes.
#pragma once

#include <optional>
#include <string>

#include "kernels/cuda/cublas_lt.h"
#include "products/product_choices.h"

namespace lmtrain {

// Returns the product and the algorithm as texts. The kind names the operands, N or T where it is
// transposed in memory, their type, the type of the result, and + where the product is added to
// what is there: "TN bf16 fp32+".
ProductChoice choice_of(const cuda::MatrixProduct& product,
                        const cuda::ProductAlgorithm& algorithm);

// Return what the texts of a choice say; nothing where they are not as choice_of() writes them.
std::optional<cuda::MatrixProduct> product_of(const ProductChoice& choice);
std::optional<cuda::ProductAlgorithm> algorithm_of(const ProductChoice& choice);

}  // namespace lmtrain
