// Every instruction set's matrix product this processor can run, against sums in double.
#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/tables.h"
#include "support/isa.h"

namespace lmtrain {
namespace {

// f(table) of an instruction set: those of fp32, and "avx512bf16" of bf16, both ways.
template <class F>
void with_table(const std::string& isa, const F& f) {
  if (isa == "avx512bf16") {
    for (const CpuGemm<Bf16>* gemm : {&avx512bf16::kGemmBf16Dot, &avx512bf16::kGemmBf16ToF32}) {
      SCOPED_TRACE(gemm == &avx512bf16::kGemmBf16Dot ? "pairs" : "widened");
      f(*gemm);
    }
  } else {
    f(isa == "avx512" ? avx512::kGemmFloat
      : isa == "avx2" ? avx2::kGemmFloat
                      : baseline::kGemmFloat);
  }
}

double value(float x) { return x; }
double value(Bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
void set(float& to, float x) { to = x; }
void set(Bf16& to, float x) { to.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }
// Of a result rounded to it, relative to its value.
constexpr double rounding(float) { return 0; }
constexpr double rounding(Bf16) { return 1.0 / 256; }

// 64-byte aligned floats, with NaN behind the last, which nothing may read into a result.
std::unique_ptr<float, decltype(&std::free)> aligned(int64_t count) {
  const auto bytes = static_cast<size_t>((count + 15) / 16 * 16) * sizeof(float);
  auto* data = static_cast<float*>(std::aligned_alloc(64, bytes));
  for (size_t i = 0; i < bytes / sizeof(float); ++i)
    data[i] = std::numeric_limits<float>::quiet_NaN();
  return {data, &std::free};
}

template <class T>
std::vector<T> normals(int64_t count, uint64_t seed) {
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    set(values[i], static_cast<float>(random_normal(seed, RandomStream::kBench, i)));
  }
  return values;
}

struct Shape {
  int64_t rows, depth, columns;
};

// The right operand's panels, one behind the other.
template <class T>
auto packed(const CpuGemm<T>& gemm, const Shape& shape, const GemmMatrix<T>& b) {
  const int64_t units = (shape.depth + gemm.unit - 1) / gemm.unit;
  const int64_t num_panels = (shape.columns + gemm.panel_columns - 1) / gemm.panel_columns;
  auto panels = aligned(num_panels * gemm.panel_columns * units);
  for (int64_t first = 0; first < shape.columns; first += gemm.panel_columns) {
    gemm.pack_panel({b.at(0, first), b.row_stride, b.column_stride}, shape.depth,
                    std::min(gemm.panel_columns, shape.columns - first),
                    panels.get() + first * units);
  }
  return panels;
}

// sums[rows][columns + gap] after a product with what they held before.
template <class T>
std::vector<float> multiply(const CpuGemm<T>& gemm, const Shape& shape, const GemmMatrix<T>& a,
                            const GemmMatrix<T>& b, std::vector<float> sums, int64_t stride,
                            bool add) {
  const auto panels = packed(gemm, shape, b);
  const auto scratch = aligned(gemm.scratch);
  const GemmBlock<T> block = {a, shape.rows, shape.depth};
  LinesList nothing;
  gemm.multiply(block, nothing, panels.get(), shape.columns, {sums.data(), stride}, add, {},
                scratch.get());
  return sums;
}

template <class T>
GemmMatrix<T> matrix(const std::vector<T>& values, int64_t rows, int64_t columns, bool transposed) {
  return transposed ? GemmMatrix<T>{values.data(), 1, rows}
                    : GemmMatrix<T>{values.data(), columns, 1};
}

class CpuGemmTest : public testing::IsaTest {};

TEST_P(CpuGemmTest, EqualsSumsInDouble) {
  constexpr int64_t kGap = 3;
  const std::vector<Shape> shapes = {{1, 1, 1},     {5, 3, 7},     {6, 16, 16},    {12, 32, 32},
                                     {13, 17, 33},  {48, 256, 64}, {47, 255, 130}, {40, 100, 8},
                                     {36, 60, 40},  {144, 40, 33}, {139, 37, 70},  {12, 2, 32},
                                     {18, 254, 48}, {24, 249, 32}};
  with_table(GetParam(), [&]<class T>(const CpuGemm<T>& gemm) {
    for (const Shape& shape : shapes) {
      const std::vector<T> a = normals<T>(shape.rows * shape.depth, 1);
      const std::vector<T> b = normals<T>(shape.depth * shape.columns, 2);
      const int64_t stride = shape.columns + kGap;
      const std::vector<float> before = normals<float>(shape.rows * stride, 3);
      for (const int way : {0, 1, 2, 3, 4, 5, 6, 7}) {
        SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.depth << " x "
                                          << shape.columns << ", way " << way);
        if (shape.rows > kGemmRows && (way & 1) == 0) continue;
        const GemmMatrix<T> left = matrix(a, shape.rows, shape.depth, (way & 1) != 0);
        const GemmMatrix<T> right = matrix(b, shape.depth, shape.columns, (way & 2) != 0);
        const bool add = (way & 4) != 0;
        const std::vector<float> c = multiply(gemm, shape, left, right, before, stride, add);
        for (int64_t i = 0; i < shape.rows; ++i) {
          for (int64_t j = 0; j < stride; ++j) {
            const auto index = static_cast<size_t>(i * stride + j);
            if (j >= shape.columns) {
              ASSERT_EQ(c[index], before[index]) << "beyond the result";
              continue;
            }
            double sum = add ? before[index] : 0, size = std::abs(sum);
            for (int64_t k = 0; k < shape.depth; ++k) {
              const double term = value(*left.at(i, k)) * value(*right.at(k, j));
              sum += term;
              size += std::abs(term);
            }
            ASSERT_NEAR(c[index], sum, 2e-6 * size) << i << ", " << j;
          }
        }
      }
    }
  });
}

// With a result to round into, that is what is written, and the sums stay what they were.
TEST_P(CpuGemmTest, RoundsItsSumsIntoTheResult) {
  with_table(GetParam(), [&]<class T>(const CpuGemm<T>& gemm) {
    const Shape shape = {29, 60, 41};
    const std::vector<T> a = normals<T>(shape.rows * shape.depth, 6);
    const std::vector<T> b = normals<T>(shape.depth * shape.columns, 7);
    const GemmMatrix<T> left = matrix(a, shape.rows, shape.depth, false);
    const GemmMatrix<T> right = matrix(b, shape.depth, shape.columns, false);
    const std::vector<float> before = normals<float>(shape.rows * shape.columns, 8);
    const std::vector<float> wanted =
        multiply(gemm, shape, left, right, before, shape.columns, true);
    const auto panels = packed(gemm, shape, right);
    const auto scratch = aligned(gemm.scratch);
    std::vector<float> sums = before;
    const int64_t stride = shape.columns + 5;
    std::vector<T> c(static_cast<size_t>(shape.rows * stride));
    // What is fetched meanwhile changes nothing.
    LinesList next;
    next.add(Lines(a.data(), int64_t{sizeof(T)}, int64_t{sizeof(T)}, 1));
    next.add(Lines(b.data(), 3 * int64_t{sizeof(T)}, int64_t{sizeof(T)}, 2));
    gemm.multiply({left, shape.rows, shape.depth}, next, panels.get(), shape.columns,
                  {sums.data(), shape.columns}, true, {c.data(), stride}, scratch.get());
    EXPECT_EQ(sums, before);
    for (int64_t i = 0; i < shape.rows; ++i) {
      for (int64_t j = 0; j < stride; ++j) {
        const double got = value(c[static_cast<size_t>(i * stride + j)]);
        if (j >= shape.columns) {
          ASSERT_EQ(got, 0) << "beyond the result";
          continue;
        }
        const double sum = wanted[static_cast<size_t>(i * shape.columns + j)];
        ASSERT_NEAR(got, sum, rounding(T{}) * std::abs(sum)) << i << ", " << j;
      }
    }
  });
}

// A sum has one order, whichever tile, edge or packing it falls into.
TEST_P(CpuGemmTest, BitsDependOnTheOperandsAlone) {
  with_table(GetParam(), [&]<class T>(const CpuGemm<T>& gemm) {
    const Shape shape = {44, 200, 70};
    const std::vector<T> a = normals<T>(shape.rows * shape.depth, 4);
    const std::vector<T> b = normals<T>(shape.depth * shape.columns, 5);
    std::vector<T> a_transposed(a.size());
    for (int64_t i = 0; i < shape.rows; ++i) {
      for (int64_t k = 0; k < shape.depth; ++k) {
        a_transposed[static_cast<size_t>(k * shape.rows + i)] =
            a[static_cast<size_t>(i * shape.depth + k)];
      }
    }
    const GemmMatrix<T> right = matrix(b, shape.depth, shape.columns, false);
    const std::vector<float> empty(static_cast<size_t>(shape.rows * shape.columns));
    const GemmMatrix<T> left = matrix(a, shape.rows, shape.depth, false);
    const std::vector<float> whole =
        multiply(gemm, shape, left, right, empty, shape.columns, false);
    EXPECT_EQ(whole, multiply(gemm, shape, matrix(a_transposed, shape.rows, shape.depth, true),
                              right, empty, shape.columns, false));
    // One row, and a few columns from one of them on.
    const std::vector<float> row =
        multiply<T>(gemm, {1, shape.depth, 9}, {left.at(37, 0), shape.depth, 1},
                    {right.at(0, 41), shape.columns, 1}, empty, 9, false);
    for (size_t j = 0; j < 9; ++j) {
      EXPECT_EQ(row[j], whole[static_cast<size_t>(37 * shape.columns + 41) + j]);
    }
  });
}

// MKL's product is taken where there is neither AVX2 nor AVX-512.
TEST(FastestCpuGemm, IsOursWithAvx2AndAvx512) {
  const std::string isa = cpu_kernels_isa();
  const CpuGemm<float>* wanted = isa == "baseline" ? nullptr
                                 : isa == "avx2"   ? &avx2::kGemmFloat
                                                   : &avx512::kGemmFloat;
  EXPECT_EQ(fastest_cpu_gemm<float>(), wanted);
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuGemmTest,
                         ::testing::Values("baseline", "avx2", "avx512", "avx512bf16"));

}  // namespace
}  // namespace lmtrain
