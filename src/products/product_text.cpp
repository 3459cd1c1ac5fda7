#include "products/product_text.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace lmtrain {
namespace {

using cuda::ElementType;

constexpr std::array<std::pair<ElementType, std::string_view>, 3> kTypeNames = {
    {{ElementType::kFloat, "fp32"}, {ElementType::kBf16, "bf16"}, {ElementType::kHalf, "fp16"}}};
constexpr std::string_view kDigits = "0123456789abcdef";

std::string_view type_name(ElementType type) {
  for (const auto& [value, name] : kTypeNames) {
    if (value == type) return name;
  }
  return "";
}

std::string kind_of(const cuda::MatrixProduct& product) {
  return str(product.a_transposed ? 'T' : 'N', product.b_transposed ? 'T' : 'N', ' ',
             type_name(product.operands), ' ', type_name(product.result), product.adds ? "+" : "");
}

}  // namespace

ProductChoice choice_of(const cuda::MatrixProduct& product,
                        const cuda::ProductAlgorithm& algorithm) {
  return {product.m, product.n, product.k, kind_of(product),
          to_hex({reinterpret_cast<const char*>(algorithm.data()), algorithm.size()})};
}

std::optional<cuda::MatrixProduct> product_of(const ProductChoice& choice) {
  if (choice.m < 1 || choice.n < 1 || choice.k < 1) return std::nullopt;
  // There are few kinds, so they are compared.
  for (const ElementType operands : {ElementType::kBf16, ElementType::kHalf}) {
    for (const ElementType result : {operands, ElementType::kFloat}) {
      for (int bits = 0; bits < 8; ++bits) {
        const cuda::MatrixProduct product{choice.m,        choice.n, choice.k, (bits & 1) != 0,
                                          (bits & 2) != 0, operands, result,   (bits & 4) != 0};
        if (kind_of(product) == choice.kind) return product;
      }
    }
  }
  return std::nullopt;
}

std::optional<cuda::ProductAlgorithm> algorithm_of(const ProductChoice& choice) {
  cuda::ProductAlgorithm algorithm{};
  if (choice.algorithm.size() != 2 * algorithm.size()) return std::nullopt;
  for (size_t i = 0; i < choice.algorithm.size(); ++i) {
    const size_t digit = kDigits.find(choice.algorithm[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    algorithm[i / 2] = static_cast<uint8_t>(algorithm[i / 2] << 4 | digit);
  }
  return algorithm;
}

std::string problem_of(const ProductChoices& choices) {
  if (choices.library < 1) return "library is no version";
  if (choices.micro_tokens < 1) return "micro_tokens is less than 1";
  for (size_t i = 0; i < choices.chosen.size(); ++i) {
    const ProductChoice& choice = choices.chosen[i];
    const auto problem = [&](const char* key, const char* what) {
      return str("chosen[", i, "].", key, what);
    };
    if (choice.m < 1) return problem("m", " is less than 1");
    if (choice.n < 1) return problem("n", " is less than 1");
    if (choice.k < 1) return problem("k", " is less than 1");
    if (!product_of(choice)) return problem("kind", " is no kind of product");
    if (!algorithm_of(choice)) return problem("algorithm", " is not 128 hexadecimal digits");
  }
  return "";
}

}  // namespace lmtrain
