// Every instruction set's matrix product this processor can run, against sums in double.
#include "ops/cpu_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "ops/cpu_tables.h"
#include "support/isa.h"

namespace lmtrain {
namespace {

using testing::runs;

const CpuGemm& table(const std::string& isa) {
  return isa == "avx512" ? avx512::kGemm : isa == "avx2" ? avx2::kGemm : baseline::kGemm;
}

// 64-byte aligned, with NaN behind its last element, which nothing may read into a result.
std::unique_ptr<float, decltype(&std::free)> aligned(int64_t count) {
  const auto bytes = static_cast<size_t>((count + 15) / 16 * 16) * sizeof(float);
  auto* data = static_cast<float*>(std::aligned_alloc(64, bytes));
  for (size_t i = 0; i < bytes / sizeof(float); ++i)
    data[i] = std::numeric_limits<float>::quiet_NaN();
  return {data, &std::free};
}

std::vector<float> normals(int64_t count, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(random_normal(seed, RandomStream::kBench, i));
  }
  return values;
}

struct Shape {
  int64_t rows, depth, columns;
};

class CpuGemmTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!runs(GetParam())) GTEST_SKIP() << "this processor has no " << GetParam();
  }

  // c[rows][columns + gap] after a product with what it held before.
  std::vector<float> multiply(const Shape& shape, GemmMatrix a, GemmMatrix b, std::vector<float> c,
                              int64_t c_stride, bool add) const {
    const CpuGemm& gemm = table(GetParam());
    const int64_t num_panels = (shape.columns + gemm.panel_columns - 1) / gemm.panel_columns;
    const auto panels = aligned(num_panels * gemm.panel_columns * shape.depth);
    for (int64_t panel = 0; panel < num_panels; ++panel) {
      const int64_t first = panel * gemm.panel_columns;
      gemm.pack_panel({b.at(0, first), b.row_stride, b.column_stride}, shape.depth,
                      std::min(gemm.panel_columns, shape.columns - first),
                      panels.get() + first * shape.depth);
    }
    const auto scratch = aligned(gemm.scratch);
    gemm.multiply(a, shape.rows, shape.depth, panels.get(), shape.columns, c.data(), c_stride, add,
                  scratch.get());
    return c;
  }
};

GemmMatrix matrix(const std::vector<float>& values, int64_t rows, int64_t columns,
                  bool transposed) {
  return transposed ? GemmMatrix{values.data(), 1, rows} : GemmMatrix{values.data(), columns, 1};
}

TEST_P(CpuGemmTest, EqualsSumsInDouble) {
  constexpr int64_t kGap = 3;
  const std::vector<Shape> shapes = {{1, 1, 1},    {5, 3, 7},     {6, 16, 16},    {12, 32, 32},
                                     {13, 17, 33}, {48, 256, 64}, {47, 255, 130}, {40, 100, 8}};
  for (const Shape& shape : shapes) {
    const std::vector<float> a = normals(shape.rows * shape.depth, 1);
    const std::vector<float> b = normals(shape.depth * shape.columns, 2);
    const int64_t c_stride = shape.columns + kGap;
    const std::vector<float> before = normals(shape.rows * c_stride, 3);
    for (const int way : {0, 1, 2, 3, 4, 5, 6, 7}) {
      SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.depth << " x "
                                        << shape.columns << ", way " << way);
      const GemmMatrix left = matrix(a, shape.rows, shape.depth, (way & 1) != 0);
      const GemmMatrix right = matrix(b, shape.depth, shape.columns, (way & 2) != 0);
      const bool add = (way & 4) != 0;
      const std::vector<float> c = multiply(shape, left, right, before, c_stride, add);
      for (int64_t i = 0; i < shape.rows; ++i) {
        for (int64_t j = 0; j < c_stride; ++j) {
          const auto place = static_cast<size_t>(i * c_stride + j);
          if (j >= shape.columns) {
            ASSERT_EQ(c[place], before[place]) << "beyond the result";
            continue;
          }
          double sum = add ? before[place] : 0, size = std::abs(sum);
          for (int64_t k = 0; k < shape.depth; ++k) {
            const double term = double{*left.at(i, k)} * double{*right.at(k, j)};
            sum += term;
            size += std::abs(term);
          }
          ASSERT_NEAR(c[place], sum, 2e-6 * size) << i << ", " << j;
        }
      }
    }
  }
}

// A sum has one order, whichever tile, edge or packing it falls into.
TEST_P(CpuGemmTest, BitsDependOnTheOperandsAlone) {
  const Shape shape = {44, 200, 70};
  const std::vector<float> a = normals(shape.rows * shape.depth, 4);
  const std::vector<float> b = normals(shape.depth * shape.columns, 5);
  std::vector<float> a_transposed(a.size());
  for (int64_t i = 0; i < shape.rows; ++i) {
    for (int64_t k = 0; k < shape.depth; ++k) {
      a_transposed[static_cast<size_t>(k * shape.rows + i)] =
          a[static_cast<size_t>(i * shape.depth + k)];
    }
  }
  const GemmMatrix right = matrix(b, shape.depth, shape.columns, false);
  const std::vector<float> empty(static_cast<size_t>(shape.rows * shape.columns));
  const GemmMatrix left = matrix(a, shape.rows, shape.depth, false);
  const std::vector<float> whole = multiply(shape, left, right, empty, shape.columns, false);
  EXPECT_EQ(whole, multiply(shape, matrix(a_transposed, shape.rows, shape.depth, true), right,
                            empty, shape.columns, false));
  // One row, and a few columns from one of them on.
  const std::vector<float> row = multiply({1, shape.depth, 9}, {left.at(37, 0), shape.depth, 1},
                                          {right.at(0, 41), shape.columns, 1}, empty, 9, false);
  for (size_t j = 0; j < 9; ++j) {
    EXPECT_EQ(row[j], whole[static_cast<size_t>(37 * shape.columns + 41) + j]);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuGemmTest, ::testing::Values("baseline", "avx2", "avx512"));

}  // namespace
}  // namespace lmtrain
