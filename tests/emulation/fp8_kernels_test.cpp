// The casts to fp8, emulated: the largest |x|, scale, rounding, and where each number lands.
#include "arrays.h"
#include "cuda_fp8.h"
#include "kernels/cuda/kernels.h"

namespace lmtrain::emulated {
namespace {

using cuda::Fp8Format;

double largest_of(Fp8Format format) { return format == Fp8Format::kE4M3 ? 448 : 57344; }

// The number that a byte is: sign, 4 or 5 bits of exponent, the rest digits.
double value_of(uint8_t byte, Fp8Format format) {
  const int digits = format == Fp8Format::kE4M3 ? 3 : 2, bias = format == Fp8Format::kE4M3 ? 7 : 15;
  const int magnitude = byte & 0x7F;
  const int exponent = magnitude >> digits, fraction = magnitude & ((1 << digits) - 1);
  const double sign = byte & 0x80 ? -1 : 1;
  if (format == Fp8Format::kE4M3 && magnitude == 0x7F) return NAN;
  if (format == Fp8Format::kE5M2 && exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias - digits)
                       : sign * std::ldexp((1 << digits) + fraction, exponent - bias - digits);
}

// Of all finite numbers the nearest to x; of two, the even one.
double nearest(double x, Fp8Format format) {
  double best = NAN;
  bool best_is_even = false;
  for (int byte = 0; byte < 256; ++byte) {
    const double value = value_of(static_cast<uint8_t>(byte), format);
    if (!std::isfinite(value)) continue;
    const double distance = std::abs(value - x), best_distance = std::abs(best - x);
    if (std::isnan(best) || distance < best_distance ||
        (distance == best_distance && !best_is_even)) {
      best = value;
      best_is_even = byte % 2 == 0;
    }
  }
  return best;
}

// Bytes on an 8-byte boundary, with guards on both sides.
class Bytes {
 public:
  explicit Bytes(int64_t size) : words_(static_cast<size_t>(size / 8 + 1 + 2 * kGuardWords)) {
    std::fill(words_.begin(), words_.end(), kGuard);
    size_ = size;
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() {
    const auto* all = reinterpret_cast<const uint8_t*>(words_.data());
    for (int64_t i = 0; i < static_cast<int64_t>(8 * words_.size()); ++i) {
      if (i < 8 * kGuardWords || i >= 8 * kGuardWords + size_) {
        EXPECT_EQ(all[i], 0xE7) << "guard";
      }
    }
  }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(words_.data() + kGuardWords); }
  uint8_t at(int64_t i) { return data()[i]; }

 private:
  static constexpr int64_t kGuardWords = 4;
  static constexpr uint64_t kGuard = 0xE7E7E7E7E7E7E7E7;
  std::vector<uint64_t> words_;
  int64_t size_;
};

template <class T>
struct Cast {
  Cast(Array<T>& x, Fp8Format format, int64_t rows, int64_t padded, int64_t columns,
       void* stream = nullptr)
      : amax(cuda::fp8_amax_parts(x.size())),
        by_rows(padded * columns),
        by_columns(padded * columns),
        inverse_scale(1) {
    const cuda::Call call{type_of<T>(), stream};
    cuda::fp8_amax(call, x.data(), amax.data(), x.size());
    cuda::fp8_cast(call, x.data(), amax.data(), amax.size(), format, by_rows.data(),
                   by_columns.data(), inverse_scale.data(), rows, padded, columns);
  }
  Array<float> amax;
  Bytes by_rows, by_columns;
  Array<float> inverse_scale;
};

template <class T>
class Fp8Kernels : public ::testing::Test {};
TYPED_TEST_SUITE(Fp8Kernels, ElementTypes);

TYPED_TEST(Fp8Kernels, CastToTheNearestByRowsAndByColumns) {
  using T = TypeParam;
  struct Shape {
    int64_t rows, padded, columns;
  };
  // Padded by nothing, by much; less than a tile, a tile, and several each way.
  for (const Shape& shape :
       {Shape{1, 16, 16}, {16, 16, 48}, {128, 128, 64}, {131, 144, 80}, {260, 272, 144}}) {
    for (const Fp8Format format : {Fp8Format::kE4M3, Fp8Format::kE5M2}) {
      SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.columns);
      in_every_way([&](int64_t shift) {
        Array<T> x(shape.rows * shape.columns, shift);
        x.fill(1, 1e-3);
        Cast<T> cast(x, format, shape.rows, shape.padded, shape.columns);
        double amax = 0;
        for (const double value : x.values()) amax = std::max(amax, std::abs(value));
        EXPECT_EQ(amax, *std::max_element(cast.amax.data(), cast.amax.data() + cast.amax.size()));
        const auto largest = static_cast<float>(largest_of(format));
        EXPECT_EQ(cast.inverse_scale.data()[0], static_cast<float>(amax) / largest);
        const float scale = largest / static_cast<float>(amax);
        std::vector<double> bytes;
        for (int64_t row = 0; row < shape.padded; ++row) {
          for (int64_t column = 0; column < shape.columns; ++column) {
            const uint8_t byte = cast.by_rows.at(row * shape.columns + column);
            const bool inside = row < shape.rows;
            const auto exact =
                inside ? static_cast<float>(x.at(row * shape.columns + column)) * scale : 0.0F;
            // One in some: the search is slow.
            if (!inside || (row + column) % 7 == 0 || std::abs(exact) > 0.99F * largest) {
              EXPECT_EQ(value_of(byte, format), nearest(static_cast<double>(exact), format))
                  << exact << " at " << row << ", " << column;
            }
            EXPECT_EQ(byte, cast.by_columns.at(column * shape.padded + row));
            bytes.push_back(byte);
          }
        }
        return bytes;
      });
    }
  }
}

// Numbers between two neighbours, and below the smallest.
TEST(Fp8KernelsOfFp32, TiesGoToEvenAndTinyNumbersToZero) {
  for (const Fp8Format format : {Fp8Format::kE4M3, Fp8Format::kE5M2}) {
    constexpr int64_t kRows = 16, kColumns = 32;
    Array<float> x(kRows * kColumns);
    for (int64_t i = 0; i < x.size(); ++i) {
      const auto byte = static_cast<uint8_t>(i / 4 % 127);
      const double here = value_of(byte, format), next = value_of(byte + 1, format);
      const double middle = std::isfinite(next) ? (here + next) / 2 : 0;
      const double to = i % 4 == 0 ? middle : i % 4 == 1 ? here : i % 4 == 2 ? -middle : here / 3;
      x.set(i, std::isfinite(to) ? to : 0);
    }
    x.set(0, largest_of(format));  // so that the scale is 1
    Cast<float> cast(x, format, kRows, kRows, kColumns);
    EXPECT_EQ(cast.inverse_scale.at(0), 1);
    for (int64_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(value_of(cast.by_rows.at(i), format), nearest(x.at(i), format)) << x.at(i);
  }
}

TYPED_TEST(Fp8Kernels, EitherCopyIsMadeAlone) {
  using T = TypeParam;
  constexpr int64_t kRows = 150, kPadded = 160, kColumns = 80;
  Array<T> x(kRows * kColumns);
  x.fill(2);
  Cast<T> both(x, Fp8Format::kE4M3, kRows, kPadded, kColumns);
  Bytes rows(kPadded * kColumns), columns(kPadded * kColumns);
  Array<float> inverse_scale(1);
  const cuda::Call call{type_of<T>(), nullptr};
  const auto cast = [&](uint8_t* by_rows, uint8_t* by_columns) {
    cuda::fp8_cast(call, x.data(), both.amax.data(), both.amax.size(), Fp8Format::kE4M3, by_rows,
                   by_columns, inverse_scale.data(), kRows, kPadded, kColumns);
  };
  cast(rows.data(), nullptr);
  cast(nullptr, columns.data());
  for (int64_t i = 0; i < kPadded * kColumns; ++i) {
    ASSERT_EQ(rows.at(i), both.by_rows.at(i));
    ASSERT_EQ(columns.at(i), both.by_columns.at(i));
  }
  EXPECT_EQ(inverse_scale.at(0), both.inverse_scale.at(0));
}

// One after the other through the same shared memory.
TEST(Fp8KernelsOfFp32, ABlockTakesSeveralTiles) {
  constexpr int64_t kColumns = 64, kRows = 128 * 1030;
  Array<float> x(kRows * kColumns);
  const auto value = [](int64_t i) { return static_cast<double>(i % 89 - 44); };
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, value(i));
  const float amax = 448;  // so that the scale is 1
  for (const bool descending : {false, true}) {
    emulation::set_descending(descending);
    Bytes rows(kRows * kColumns), columns(kRows * kColumns);
    Array<float> inverse_scale(1);
    cuda::fp8_cast({cuda::ElementType::kFloat, nullptr}, x.data(), &amax, 1, Fp8Format::kE4M3,
                   rows.data(), columns.data(), inverse_scale.data(), kRows, kRows, kColumns);
    std::vector<uint8_t> expected;
    for (int64_t i = 0; i < 89; ++i)
      expected.push_back(emulation::float_to_fp8(static_cast<float>(value(i)), __NV_E4M3));
    for (int64_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(rows.at(i), expected[static_cast<size_t>(i % 89)]) << i;
      ASSERT_EQ(columns.at(i % kColumns * kRows + i / kColumns), rows.at(i)) << i;
    }
  }
  emulation::set_descending(false);
}

TYPED_TEST(Fp8Kernels, ZerosAreZeros) {
  Array<TypeParam> x(16 * 16);
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, 0);
  Cast<TypeParam> cast(x, Fp8Format::kE4M3, 16, 16, 16);
  for (int64_t i = 0; i < x.size(); ++i) EXPECT_EQ(cast.by_rows.at(i), 0);
  EXPECT_TRUE(std::isfinite(cast.inverse_scale.at(0)));
}

// One number among thousands, wherever it is: what brings the copy back is not finite.
TYPED_TEST(Fp8Kernels, WhatIsNotFiniteIsNotHidden) {
  using T = TypeParam;
  constexpr int64_t kRows = 144, kColumns = 80;
  for (const double bad :
       {static_cast<double>(NAN), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
    for (const int64_t index : {int64_t{0}, int64_t{4099}, kRows * kColumns - 1}) {
      for (const bool descending : {false, true}) {
        emulation::set_descending(descending);
        Array<T> x(kRows * kColumns);
        x.fill(3);
        x.set(index, bad);
        Cast<T> cast(x, Fp8Format::kE5M2, kRows, kRows, kColumns);
        EXPECT_FALSE(std::isfinite(cast.inverse_scale.at(0)));
        EXPECT_TRUE(std::isnan(value_of(cast.by_rows.at(index), Fp8Format::kE5M2)));
        // A negative control: without that number all is finite.
        x.set(index, 1);
        Cast<T> without(x, Fp8Format::kE5M2, kRows, kRows, kColumns);
        EXPECT_TRUE(std::isfinite(without.inverse_scale.at(0)));
        EXPECT_TRUE(std::isfinite(value_of(without.by_rows.at(index), Fp8Format::kE5M2)));
      }
    }
  }
  emulation::set_descending(false);
}

// The scale is not baked into a graph: it follows what is in memory.
TEST(Fp8KernelsOfFp32, AGraphFindsTheScaleAnew) {
  constexpr int64_t kRows = 32, kColumns = 48;
  int some_stream;
  Array<float> x(kRows * kColumns);
  x.fill(4);
  cuda::begin_capture(&some_stream);
  Cast<float> captured(x, Fp8Format::kE4M3, kRows, kRows, kColumns, &some_stream);
  void* const graph = cuda::end_capture(&some_stream);
  for (const double scale : {1.0, 300.0}) {
    x.fill(5, scale);
    cuda::launch_graph(graph, nullptr);
    Cast<float> direct(x, Fp8Format::kE4M3, kRows, kRows, kColumns);
    EXPECT_EQ(captured.inverse_scale.at(0), direct.inverse_scale.at(0));
    for (int64_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(captured.by_columns.at(i), direct.by_columns.at(i));
  }
  cuda::destroy_graph(graph);
}

}  // namespace
}  // namespace lmtrain::emulated
