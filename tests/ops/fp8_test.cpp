// Casts to fp8 and their products on a CPU: the oracle of the kernels, against arithmetic in
// double.
#include "ops/fp8.h"

#include "support/fp8.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::quantised;
using testing::random_tensor;
using testing::same_bits;

constexpr auto kFormats = {at::kFloat8_e4m3fn, at::kFloat8_e5m2};

Fp8Copies cast(const at::Tensor& x, at::ScalarType format, Fp8Layout layout = Fp8Layout::kBoth) {
  return fp8_cast(x, fp8_amax(x), format, layout);
}
at::Tensor brought_back(const Fp8Copies& copies) {
  return copies.rows_MN.to(at::kDouble) * copies.inverse_scale.to(at::kDouble);
}

TEST(Fp8, CastsToTheNearest) {
  for (const at::ScalarType format : kFormats) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor x = random_tensor({48, 32}, 1, dtype);
      const Fp8Copies copies = cast(x, format);
      EXPECT_EQ(copies.rows_MN.scalar_type(), format);
      const double difference =
          testing::largest_difference(brought_back(copies), quantised(x, format));
      EXPECT_LE(difference, 1e-6) << at::toString(format) << " from " << at::toString(dtype);
      // What it has lost: half a unit of 3 or 2 digits, relative to each number.
      const at::Tensor lost = (brought_back(copies) - x.to(at::kDouble)).abs();
      const double step = format == at::kFloat8_e4m3fn ? 1.0 / 16 : 1.0 / 8;
      const at::Tensor large = x.to(at::kDouble).abs() > 0.1;
      const at::Tensor relative = (lost / x.to(at::kDouble).abs()).masked_select(large);
      EXPECT_LE(relative.max().item<double>(), 1.001 * step);
      EXPECT_GE(relative.max().item<double>(), 0.8 * step) << "is it fp8?";
    }
  }
}

TEST(Fp8, TheColumnsAreTheRowsTransposedAndZerosFillUp) {
  for (const int64_t rows : {1, 15, 16, 37}) {
    const at::Tensor x = random_tensor({rows, 48}, 2);
    const int64_t padded = (rows + 15) / 16 * 16;
    const Fp8Copies both = cast(x, at::kFloat8_e4m3fn);
    EXPECT_EQ(both.rows_MN.sizes(), (at::IntArrayRef{padded, 48}));
    EXPECT_TRUE(both.columns_NM.is_contiguous());
    EXPECT_TRUE(same_bits(both.columns_NM, both.rows_MN.t().contiguous()));
    const at::Tensor zeros = both.rows_MN.to(at::kFloat).narrow(0, rows, padded - rows);
    EXPECT_EQ(zeros.count_nonzero().item<int64_t>(), 0);
    const Fp8Copies by_rows = cast(x, at::kFloat8_e4m3fn, Fp8Layout::kRows);
    const Fp8Copies by_columns = cast(x, at::kFloat8_e4m3fn, Fp8Layout::kColumns);
    EXPECT_FALSE(by_rows.columns_NM.defined());
    EXPECT_FALSE(by_columns.rows_MN.defined());
    EXPECT_TRUE(same_bits(by_rows.rows_MN, both.rows_MN));
    EXPECT_TRUE(same_bits(by_columns.columns_NM, both.columns_NM));
  }
}

TEST(Fp8, TheLargestNumberBecomesTheFormatsLargest) {
  for (const double scale : {1e-12, 1e-3, 1.0, 1e3, 3e38}) {
    at::Tensor x = random_tensor({16, 16}, 3).clamp(-1, 1) * scale;
    x[3][5] = -scale;
    for (const at::ScalarType format : kFormats) {
      const Fp8Copies copies = cast(x, format);
      const double largest = format == at::kFloat8_e4m3fn ? 448 : 57344;
      EXPECT_EQ(copies.rows_MN[3][5].item<double>(), -largest) << scale;
      EXPECT_NEAR(brought_back(copies)[3][5].item<double>() / -scale, 1, 1e-6);
    }
  }
}

TEST(Fp8, ZerosAndNearlyZerosAreFinite) {
  for (const double value : {0.0, 1e-40, 1e-25}) {
    const at::Tensor x = at::full({16, 16}, value);
    const Fp8Copies copies = cast(x, at::kFloat8_e4m3fn);
    EXPECT_NEAR(brought_back(copies)[0][0].item<double>(), value, 1e-21);
    EXPECT_TRUE(copies.inverse_scale.isfinite().item<bool>());
  }
}

TEST(Fp8, ProductsAreThoseOfTheNumbersBroughtBack) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Fp8Copies a = cast(random_tensor({32, 48}, 4), at::kFloat8_e5m2);
    const Fp8Copies b = cast(random_tensor({16, 48}, 5) * 1e-4, at::kFloat8_e4m3fn);
    const at::Tensor c = fp8_product({a.rows_MN, a.inverse_scale}, {b.rows_MN, b.inverse_scale},
                                     dtype, /*fast=*/false);
    EXPECT_EQ(c.scalar_type(), dtype);
    EXPECT_LE(
        testing::largest_difference(c * 1e4, at::mm(brought_back(a), brought_back(b).t()) * 1e4),
        dtype == at::kFloat ? 1e-6 : 4e-3);
  }
}

}  // namespace
}  // namespace lmtrain
