// Products of batches, and of matrices however they lie; others are linear_test.cpp's.
#include "ops/matmul.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full_like.h>

#include "kernels/cpu/gemm.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::random_tensor;

// Both operands as they are and as transposed views.
at::Tensor laid_out(const at::Tensor& x, bool transposed) {
  return transposed ? x.mT().contiguous().mT() : x;
}

TEST(BatchedProduct, EqualsAtenOverShapes) {
  // Batch, rows, terms, columns: too few rows for our product, odd sizes, more than fit a tile;
  // fewer products than threads and more.
  const std::vector<std::array<int64_t, 4>> shapes = {
      {3, 1, 20, 33}, {1, 40, 17, 50}, {2, 64, 64, 64}, {5, 33, 130, 70}, {4, 16, 600, 16}};
  for (const auto& [batch, rows, terms, columns] : shapes) {
    const at::Tensor a = random_tensor({batch, rows, terms}, 1, at::kBFloat16);
    const at::Tensor b = random_tensor({batch, terms, columns}, 2, at::kBFloat16) /
                         std::sqrt(static_cast<double>(terms));
    const at::Tensor exact = at::bmm(a.to(at::kDouble), b.to(at::kDouble));
    for (const int way : {0, 1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << batch << " of " << rows << " x " << terms << " x "
                                        << columns << ", way " << way);
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
        const at::Tensor c = batched_product(laid_out(a.to(dtype), (way & 1) != 0),
                                             laid_out(b.to(dtype), (way & 2) != 0));
        EXPECT_EQ(c.scalar_type(), dtype);
        const double tolerance = dtype == at::kBFloat16 ? 1.6e-2 : 1e-5;
        EXPECT_LE(testing::largest_elementwise_difference(c, exact), tolerance);
      }
    }
  }
}

TEST(BatchedProduct, HasTheBitsOfEachProductWhateverTheThreads) {
  if (fastest_cpu_gemm<float>() == nullptr)
    GTEST_SKIP() << "a library's sums may be cut by threads";
  const at::Tensor a = random_tensor({3, 50, 64}, 3), b = random_tensor({3, 64, 48}, 4);
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 4}) {
    at::set_num_threads(threads);
    const at::Tensor c = batched_product(a, b);
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(testing::same_bits(c[i], product(a[i], b[i])));
    }
  }
  at::set_num_threads(before);
}

// A weight's gradient is taken transposed where that is faster, and some terms at a time.
TEST(Product, HasTheBitsOfItsOperandsHoweverTheyLie) {
  const auto expect = [](const at::Tensor& a_KM, const at::Tensor& b_KN) {
    const at::Tensor by_rows = product(a_KM.t().contiguous(), b_KN);
    EXPECT_EQ(by_rows.sizes(), at::IntArrayRef({a_KM.size(1), b_KN.size(1)}));
    EXPECT_TRUE(testing::same_bits(product(a_KM.t(), b_KN), by_rows));
    EXPECT_TRUE(product(a_KM.t(), b_KN).is_contiguous());
  };
  for (const auto& [terms, rows, columns] : std::vector<std::array<int64_t, 3>>{
           {300, 20, 71}, {600, 48, 96}, {600, 96, 48}, {2000, 120, 96}, {1100, 150, 1040}}) {
    const at::Tensor a = random_tensor({terms, rows}, 5), b = random_tensor({terms, columns}, 6);
    if (fastest_cpu_gemm<float>() != nullptr) expect(a, b);
    if (fastest_cpu_gemm<Bf16>() != nullptr) expect(a.to(at::kBFloat16), b.to(at::kBFloat16));
  }
}

// Rows with something between them, of any operand and of the result, where it stays as it is. A
// library's sums may depend on how far apart they are.
TEST(Product, TakesAndWritesRowsThatLieApart) {
  const auto apart = [](const at::Tensor& x) {
    const at::Tensor wide = at::full({x.size(0), x.size(1) + 5}, 7, x.options());
    return wide.narrow(1, 0, x.size(1)).copy_(x);
  };
  const auto expect_equal = [](const at::Tensor& x, const at::Tensor& y) {
    const bool ours = x.scalar_type() == at::kFloat      ? fastest_cpu_gemm<float>() != nullptr
                      : x.scalar_type() == at::kBFloat16 ? fastest_cpu_gemm<Bf16>() != nullptr
                                                         : false;
    const double tolerance = x.scalar_type() == at::kBFloat16 ? 1.6e-2 : 1e-5;
    EXPECT_TRUE(ours ? testing::same_bits(x.contiguous(), y)
                     : at::allclose(x, y, tolerance, tolerance));
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor a = random_tensor({40, 70}, 7).to(dtype);
    const at::Tensor b = random_tensor({70, 50}, 8).to(dtype);
    const at::Tensor c = product(a, b);
    expect_equal(product(apart(a), apart(b)), c);
    expect_equal(product(apart(a.t().contiguous()).t(), apart(b)), c);
    const at::Tensor wide = at::full({40, 64}, 7, c.options());
    product_into(a, b, wide.narrow(1, 0, 50));
    expect_equal(wide.narrow(1, 0, 50), c);
    EXPECT_TRUE((wide.narrow(1, 50, 14) == 7).all().item<bool>());
  }
}

// Rows, terms, columns: terms summed at a time, and more; several groups of columns, and several
// blocks; too few rows, for our product and for the threads; more terms than are packed at a time.
const std::vector<std::array<int64_t, 3>> kFusedShapes = {
    {100, 60, 70}, {130, 700, 90}, {150, 40, 1700}, {170, 33, 5000},
    {3, 20, 40},   {20, 70, 100},  {140, 600, 4096}};

template <class T>
void check_fused(at::ScalarType dtype) {
  for (const auto& [rows, terms, columns] : kFusedShapes) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << terms << " x " << columns);
    const at::Tensor a = random_tensor({rows, terms}, 9).to(dtype);
    const at::Tensor b = random_tensor({terms, columns}, 10).to(dtype);
    const at::Tensor c = product(a, b);
    const Prologue<T> copied_a = {{a}, [&](const MatrixPart& part, T* out, int64_t stride) {
                                    for (int64_t row = 0; row < part.rows; ++row) {
                                      const T* in = static_cast<const T*>(a.data_ptr()) +
                                                    (part.row + row) * terms + part.column;
                                      std::copy_n(in, part.columns, out + row * stride);
                                    }
                                  }};
    EXPECT_TRUE(testing::same_bits(product_of(copied_a, rows, b), c));
    const at::Tensor taken = at::full_like(c, 7), visits = at::zeros({rows, columns}, at::kInt);
    const Epilogue<T> copied_c = {
        {taken}, [&](const MatrixPart& part, const T* in, int64_t stride) {
          for (int64_t row = 0; row < part.rows; ++row) {
            const int64_t offset = (part.row + row) * columns + part.column;
            std::copy_n(in + row * stride, part.columns,
                        static_cast<T*>(taken.data_ptr()) + offset);
            for (int64_t i = 0; i < part.columns; ++i) ++visits.data_ptr<int>()[offset + i];
          }
        }};
    product_into(a, b, copied_c);
    EXPECT_TRUE(testing::same_bits(taken, c));
    EXPECT_TRUE((visits == 1).all().item<bool>());
  }
}

TEST(FusedProduct, ComputesItsOperandAndHandsOutItsResult) {
  check_fused<float>(at::kFloat);
  check_fused<Bf16>(at::kBFloat16);
}

TEST(VisitedProduct, HandsOutWholeRowsOnce) {
  std::vector<std::array<int64_t, 3>> shapes = kFusedShapes;
  shapes.push_back({20, 130, 70000});  // the right operand is not packed at once
  shapes.push_back({20, 0, 70});
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const auto& [rows, terms, columns] : shapes) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << terms << " x " << columns);
      const at::Tensor a = random_tensor({rows, terms}, 11).to(dtype);
      const at::Tensor b = random_tensor({terms, columns}, 12).to(dtype);
      const at::Tensor c = at::full({rows, columns}, 7, a.options());
      const at::Tensor seen = at::zeros_like(c), visits = at::zeros({rows}, at::kInt);
      product_into(a, b, c, [&](int64_t begin, int64_t end) {
        seen.narrow(0, begin, end - begin).copy_(c.narrow(0, begin, end - begin));
        for (int64_t row = begin; row < end; ++row) ++visits.data_ptr<int>()[row];
      });
      EXPECT_TRUE(testing::same_bits(c, product(a, b)));
      EXPECT_TRUE(testing::same_bits(seen, c));
      EXPECT_TRUE((visits == 1).all().item<bool>());
    }
  }
}

}  // namespace
}  // namespace lmtrain
