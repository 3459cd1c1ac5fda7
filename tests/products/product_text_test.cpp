// What state.json says of a choice.
#include "products/product_text.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

using cuda::ElementType;
using cuda::MatrixProduct;

TEST(ProductText, ReadsWhatItWrites) {
  for (const ElementType operands : {ElementType::kBf16, ElementType::kHalf}) {
    for (const ElementType result : {operands, ElementType::kFloat}) {
      for (int bits = 0; bits < 8; ++bits) {
        const MatrixProduct product{
            768, 32768, 2048, (bits & 1) != 0, (bits & 2) != 0, operands, result, (bits & 4) != 0};
        cuda::ProductAlgorithm algorithm{};
        for (size_t i = 0; i < algorithm.size(); ++i)
          algorithm[i] = static_cast<uint8_t>(37 * i + static_cast<size_t>(bits));
        const ProductChoice text = choice_of(product, algorithm);
        EXPECT_EQ(product_of(text), product) << text.kind;
        EXPECT_EQ(algorithm_of(text), algorithm) << text.algorithm;
      }
    }
  }
}

TEST(ProductText, IsTheOneOfTheFormat) {
  cuda::ProductAlgorithm algorithm{};
  algorithm.front() = 0x1A;
  algorithm.back() = 0xF0;
  const ProductChoice text = choice_of(
      {768, 32768, 2048, true, false, ElementType::kBf16, ElementType::kFloat, true}, algorithm);
  EXPECT_EQ(text.m, 768);
  EXPECT_EQ(text.n, 32768);
  EXPECT_EQ(text.k, 2048);
  EXPECT_EQ(text.kind, "TN bf16 fp32+");
  EXPECT_EQ(text.algorithm, "1a" + std::string(124, '0') + "f0");
}

TEST(ProductText, DamageIsNamedByItsKey) {
  const ProductChoice good = choice_of({64, 32, 16}, {});
  const auto problem = [&](const auto& damage) {
    ProductChoices choices{130100, "a GPU", 1024, {good, good, good}};
    damage(choices);
    return problem_of(choices);
  };
  EXPECT_EQ(problem([](ProductChoices&) {}), "");
  EXPECT_EQ(problem([](ProductChoices& of) { of.library = 0; }), "library is no version");
  EXPECT_EQ(problem([](ProductChoices& of) { of.micro_tokens = 0; }),
            "micro_tokens is less than 1");
  EXPECT_EQ(problem([](ProductChoices& of) { of.chosen[1].m = 0; }), "chosen[1].m is less than 1");
  EXPECT_EQ(problem([](ProductChoices& of) { of.chosen[0].n = -5; }), "chosen[0].n is less than 1");
  EXPECT_EQ(problem([](ProductChoices& of) { of.chosen[2].k = 0; }), "chosen[2].k is less than 1");
  for (const char* kind : {"", "NN", "NN bf16", "NX bf16 bf16", "NN fp32 fp32", "NN bf16 fp16",
                           "NN bf16 bf16 ", "nn bf16 bf16", "NN bf16 bf16++"}) {
    EXPECT_EQ(problem([&](ProductChoices& of) { of.chosen[2].kind = kind; }),
              "chosen[2].kind is no kind of product");
  }
  for (const std::string& algorithm : {std::string(), std::string(127, '0'), std::string(129, '0'),
                                       std::string(127, '0') + "g", std::string(127, '0') + "A"}) {
    EXPECT_EQ(problem([&](ProductChoices& of) { of.chosen[0].algorithm = algorithm; }),
              "chosen[0].algorithm is not 128 hexadecimal digits");
  }
}

}  // namespace
}  // namespace lmtrain
