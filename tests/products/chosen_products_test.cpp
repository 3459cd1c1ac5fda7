// Products by chosen algorithms, from ATen's tensors down to the library: here one in the place of
// cuBLASLt's, which multiplies in host memory.
#include "products/chosen_products.h"

#include "base/support.h"
#include "ops/matmul.h"
#include "ops/weight_gradient.h"
#include "products/library_in_use.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using cuda::ElementType;
using cuda::MatrixProduct;
using testing::LibraryInUse;
using testing::random_tensor;
using testing::same_bits;

const at::Device kCpu(at::kCPU);
constexpr int64_t kM = 24, kN = 40, kK = 48;

at::Tensor laid_out(const at::Tensor& x, bool transposed) {
  return transposed ? x.t().contiguous().t() : x;
}

at::Tensor left() { return random_tensor({kM, kK}, 1, at::kBFloat16); }
at::Tensor right() { return random_tensor({kK, kN}, 2, at::kBFloat16); }

cuda::ProductAlgorithm algorithm(int number) {
  cuda::ProductAlgorithm bytes{};
  bytes[0] = static_cast<uint8_t>(number);
  const uint64_t version = testing::stand_in_cublas_lt().version;
  std::memcpy(bytes.data() + 56, &version, sizeof version);
  return bytes;
}

// The products that f computes.
template <class F>
std::vector<MatrixProduct> noted(const F& f) {
  const NotedProducts noted;
  f();
  return noted.all();
}

TEST(ChosenProducts, MultiplyOperandsHoweverTheyLie) {
  const LibraryInUse library;
  const at::Tensor exact = at::mm(left().to(at::kDouble), right().to(at::kDouble));
  for (const int way : {0, 1, 2, 3}) {
    const at::Tensor a = laid_out(left(), (way & 1) != 0), b = laid_out(right(), (way & 2) != 0);
    // What cuBLAS calls A is our right operand.
    const MatrixProduct expected{kN, kM, kK, (way & 2) != 0, (way & 1) != 0};
    EXPECT_EQ(noted([&] { product(a, b); }), std::vector{expected});
    use_products(kCpu, {{expected, algorithm(way + 2)}});
    EXPECT_EQ(library->products_by[way + 2], 0);
    const at::Tensor c = product(a, b);
    EXPECT_EQ(library->products_by[way + 2], 1);
    const at::Tensor expected_c = exact * testing::factor_of_algorithm(way + 2);
    EXPECT_LE(testing::largest_elementwise_difference(c, expected_c), 1e-2) << way;
    const at::Tensor into = at::empty_like(c);
    product_into(a, b, into);
    EXPECT_EQ(library->products_by[way + 2], 2);
    EXPECT_TRUE(same_bits(into, c));
  }
  EXPECT_EQ(library->surprises, 0);
}

TEST(ChosenProducts, AddToSumsInFp32) {
  const LibraryInUse library;
  const at::Tensor exact = at::mm(left().to(at::kDouble), right().to(at::kDouble));
  const at::Tensor sum = at::full({kM, kN}, NAN);
  const auto add_twice = [&] {
    add_product(left(), right(), sum, /*first=*/true);
    add_product(left(), right(), sum, /*first=*/false);
  };
  const MatrixProduct put{kN, kM, kK, false, false, ElementType::kBf16, ElementType::kFloat, false};
  MatrixProduct add = put;
  add.adds = true;
  const std::vector<MatrixProduct> all = noted(add_twice);
  EXPECT_NE(std::find(all.begin(), all.end(), put), all.end());
  EXPECT_NE(std::find(all.begin(), all.end(), add), all.end());
  use_products(kCpu, {{put, algorithm(1)}, {add, algorithm(6)}});
  add_twice();
  EXPECT_EQ(library->products_by[1], 1);
  EXPECT_EQ(library->products_by[6], 1);
  const at::Tensor twice =
      exact * (testing::factor_of_algorithm(1) + testing::factor_of_algorithm(6));
  EXPECT_LE((sum.to(at::kDouble) - twice).abs().max().item<double>(), 1e-4);
}

TEST(ChosenProducts, AProductWithoutAChoiceIsAsIfThereWereNone) {
  const at::Tensor expected = product(left(), right());
  const LibraryInUse library;
  EXPECT_TRUE(same_bits(product(left(), right()), expected));
  use_products(kCpu, {{MatrixProduct{kN, kM, kK + 8}, algorithm(0)}});
  EXPECT_TRUE(same_bits(product(left(), right()), expected));
  use_products(kCpu, {{MatrixProduct{kN, kM, kK}, algorithm(0)}});
  EXPECT_EQ(library->products, 0);
  product(left(), right());
  EXPECT_EQ(library->products, 1);
  drop_chosen_products();
  EXPECT_TRUE(same_bits(product(left(), right()), expected));
  EXPECT_EQ(library->products, 1);
}

TEST(ChosenProducts, WhatTheLibraryCannotTakeIsNotNoted) {
  const LibraryInUse library;
  const auto with_gaps = [](const at::Tensor& x) {
    return at::cat({x, x}, 1).narrow(1, 0, x.size(1));
  };
  const at::Tensor flat = random_tensor({kM * kK + 1}, 3, at::kBFloat16);
  const at::Tensor not_aligned = flat.narrow(0, 1, kM * kK).view({kM, kK});
  EXPECT_TRUE(noted([&] { product(left().to(at::kFloat), right().to(at::kFloat)); }).empty());
  EXPECT_TRUE(noted([&] { product(with_gaps(left()), right()); }).empty());
  EXPECT_TRUE(noted([&] { product(left(), with_gaps(right())); }).empty());
  EXPECT_TRUE(noted([&] { product(not_aligned, right()); }).empty());
  EXPECT_TRUE(noted([&] { product(left().narrow(0, 0, 0), right()); }).empty());
  EXPECT_EQ(noted([&] {
              product(left(), right());
              product(left(), right());
            }).size(),
            1U);
}

TEST(ChosenProducts, TheFastestOfTheLibraryIsFoundAndOneThatFailsOrIsWrongIsNot) {
  const LibraryInUse library;
  library->slow = 0xFF & ~(1U << 5 | 1U << 2 | 1U << 3);
  library->refused = 2;
  library->wrong = 3;
  const auto algorithms = library_algorithms(kCpu);
  const MatrixProduct of{8, 8, 8};
  const auto chosen = choose_algorithm(*algorithms, of);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->algorithm, algorithm(5));
  EXPECT_LT(chosen->seconds, chosen->seconds_of_first);
  EXPECT_EQ(library->heuristics, 1);
  EXPECT_EQ(library->products_by[2], 0);
  EXPECT_EQ(library->products_by[3], 1) << "measured although it is wrong";
  EXPECT_EQ(library->surprises, 0);
  // Sizes beyond the corners that are compared, and every way that operands lie.
  library->algorithms = 1;
  for (const int way : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const MatrixProduct of_way{200,
                               72,
                               40,
                               (way & 1) != 0,
                               (way & 2) != 0,
                               ElementType::kBf16,
                               ElementType::kFloat,
                               (way & 4) != 0};
    EXPECT_TRUE(choose_algorithm(*algorithms, of_way)) << way;
    library->wrong = 0;
    EXPECT_FALSE(choose_algorithm(*algorithms, of_way)) << way;
    library->wrong = -1;
  }
  library->algorithms = 0;
  EXPECT_FALSE(choose_algorithm(*algorithms, of));
}

TEST(ChosenProducts, AnAlgorithmServesOneVersionOfTheLibrary) {
  const LibraryInUse library;
  const cuda::ProductAlgorithm of_now = algorithm(3);
  EXPECT_EQ(matmul_library_version(kCpu), 130100);
  EXPECT_TRUE(serves_product(kCpu, {8, 8, 8}, of_now));
  library->version = 130200;
  EXPECT_FALSE(serves_product(kCpu, {8, 8, 8}, of_now));
  EXPECT_THROW(use_products(kCpu, {{MatrixProduct{8, 8, 8}, of_now}}), Error);
  library->version = 130100;
  library->workspace = (size_t{32} << 20) + 1;  // more than was asked for
  EXPECT_FALSE(serves_product(kCpu, {8, 8, 8}, of_now));
}

TEST(ChosenProducts, ARefusalAfterTheChoiceIsAnError) {
  const LibraryInUse library;
  use_products(kCpu, {{MatrixProduct{kN, kM, kK}, algorithm(4)}});
  library->refused = 4;
  EXPECT_EQ(testing::error_of(ErrorKind::kInternal, [] { product(left(), right()); }),
            "cuBLASLt: a product: CUBLAS_STATUS_EXECUTION_FAILED");
}

TEST(ChosenProducts, SayWhyThereCanBeNone) {
  EXPECT_EQ(why_no_chosen_products(kCpu), "algorithms are chosen on a GPU");
  {
    const LibraryInUse library;
    EXPECT_EQ(why_no_chosen_products(kCpu), "");
    use_matmul_library({"/no/such/libcublasLt.so.13", at::kCPU});
    EXPECT_NE(why_no_chosen_products(kCpu).find("does not load"), std::string::npos);
    use_matmul_library({"libm.so.6", at::kCPU});
    EXPECT_EQ(why_no_chosen_products(kCpu), "libm.so.6 has no cublasLtCreate");
  }
  EXPECT_EQ(why_no_chosen_products(kCpu), "algorithms are chosen on a GPU");
}

}  // namespace
}  // namespace lmtrain
