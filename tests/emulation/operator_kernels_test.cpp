// The operators' CUDA kernels, emulated, against plain loops in double.
#include <numeric>

#include "arrays.h"

namespace lmtrain::emulated {
namespace {

template <class T>
class OperatorKernels : public ::testing::Test {};
TYPED_TEST_SUITE(OperatorKernels, ElementTypes);

// Forward and backward, checked; all results.
template <class T>
std::vector<double> rms_norm_results(int64_t rows, int64_t dim, bool with_residual, bool with_dh,
                                     int64_t shift) {
  constexpr double kEps = 1e-3;
  const int64_t size = rows * dim;
  Array<T> x(size, shift), residual(size, shift), weight(dim, shift), h(size, shift);
  Array<T> y(size, shift), dy(size, shift), dh(size, shift), dx(size, shift), dw(dim, shift);
  Array<float> rstd(rows, shift), partial(cuda::rms_norm_partials(rows) * dim, shift);
  x.fill(1);
  residual.fill(2);
  weight.fill(3);
  dy.fill(4);
  dh.fill(5);
  std::vector<double> expected_h, expected_y, expected_dx, expected_dw(weight.values().size());
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0, dot = 0;
    for (int64_t i = row * dim; i < (row + 1) * dim; ++i) {
      const auto sum = static_cast<float>(x.at(i) + (with_residual ? residual.at(i) : 0));
      expected_h.push_back(static_cast<double>(cuda::rounded<T>(sum)));
      squares += expected_h.back() * expected_h.back();
      dot += dy.at(i) * weight.at(i - row * dim) * expected_h.back();
    }
    const double r = 1 / std::sqrt(squares / static_cast<double>(dim) + kEps);
    for (int64_t j = 0; j < dim; ++j) {
      const int64_t i = row * dim + j;
      const double v = expected_h[static_cast<size_t>(i)];
      expected_y.push_back(v * r * weight.at(j));
      expected_dx.push_back((with_dh ? dh.at(i) : 0) + dy.at(i) * weight.at(j) * r -
                            v * dot * r * r * r / static_cast<double>(dim));
      expected_dw[static_cast<size_t>(j)] += dy.at(i) * v * r;
    }
  }
  const cuda::Call call{type_of<T>(), nullptr};
  cuda::rms_norm_forward(call, x.data(), with_residual ? residual.data() : nullptr, weight.data(),
                         with_residual ? h.data() : nullptr, y.data(), rstd.data(), rows, dim,
                         static_cast<float>(kEps));
  Array<T>& normed = with_residual ? h : x;
  cuda::rms_norm_backward(call, dy.data(), with_dh ? dh.data() : nullptr, normed.data(),
                          weight.data(), rstd.data(), dx.data(), dw.data(), partial.data(), rows,
                          dim);
  expect_near(normed.values(), expected_h, 0, "h");
  expect_near(y.values(), expected_y, tolerance<T>(), "y");
  expect_near(dx.values(), expected_dx, tolerance<T>(), "dx");
  expect_near(dw.values(), expected_dw, 2 * tolerance<T>(), "dw");
  return together({y.values(), dx.values(), dw.values(), rstd.values()});
}

TYPED_TEST(OperatorKernels, RmsNorm) {
  // Rows in a warp and in a block; in packs and not; in one tile of a thread and in several; in
  // one slice of columns and in several.
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {1, 1}, {3, 7}, {9, 64}, {2, 129}, {5, 48}, {2, 768}, {2, 4104}, {1, 9000}, {1030, 8}};
  for (const auto& [rows, dim] : shapes) {
    for (const int way : {0, 1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows of " << dim << ", way " << way);
      in_every_way([&, rows = rows, dim = dim](int64_t shift) {
        return rms_norm_results<TypeParam>(rows, dim, (way & 1) != 0, (way & 2) != 0, shift);
      });
    }
  }
}

// More rows than the backward has blocks, and several warps a row: sums follow one another.
TEST(RmsNormKernels, ABlockTakesSeveralRows) {
  for (const auto& [rows, dim] : {std::pair{1100, 256}, std::pair{450, 2048}}) {
    std::vector<std::vector<double>> results;
    for (const bool descending : {false, true}) {
      emulation::set_descending(descending);
      results.push_back(rms_norm_results<float>(rows, dim, false, true, 0));
    }
    emulation::set_descending(false);
    EXPECT_EQ(results[0], results[1]);
  }
}

TYPED_TEST(OperatorKernels, QkvRope) {
  using T = TypeParam;
  const std::vector<cuda::RopeShape> shapes = {
      {1, 1, 1, 1, 1, 1}, {2, 3, 4, 2, 8, 3}, {2, 3, 3, 1, 5, 6}, {1, 2, 12, 12, 32, 2}};
  for (const cuda::RopeShape& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.num_heads << " heads of 2 x " << shape.half);
    in_every_way([&](int64_t shift) {
      const int64_t size = 2 * shape.half;
      const int64_t positions = shape.batch * shape.length;
      const int64_t rotated = shape.num_heads + shape.num_kv_heads;
      const int64_t width = (rotated + shape.num_kv_heads) * size;
      Array<T> qkv(positions * width, shift), back(positions * width, shift);
      Array<float> cos(shape.num_angles * shape.half, shift);
      Array<float> sin(shape.num_angles * shape.half, shift);
      qkv.fill(1);
      const std::vector<double> before = qkv.values();
      for (int64_t i = 0; i < cos.size(); ++i) {
        cos.set(i, std::cos(0.7 * static_cast<double>(i)));
        sin.set(i, std::sin(0.7 * static_cast<double>(i)));
      }
      std::vector<double> expected = before;
      for (int64_t n = 0; n < positions; ++n) {
        for (int64_t head = 0; head < rotated; ++head) {
          for (int64_t i = 0; i < shape.half; ++i) {
            const int64_t at = n * width + head * size + i;
            const double a = qkv.at(at), other = qkv.at(at + shape.half);
            const int64_t angle = n % shape.num_angles * shape.half + i;
            const double c = cos.at(angle), s = sin.at(angle);
            expected[static_cast<size_t>(at)] = a * c - other * s;
            expected[static_cast<size_t>(at + shape.half)] = other * c + a * s;
          }
        }
      }
      const cuda::Call call{type_of<T>(), nullptr};
      cuda::qkv_rope_forward(call, qkv.data(), cos.data(), sin.data(), shape);
      expect_near(qkv.values(), expected, tolerance<T>(), "rotated");
      // Gradients: q's by position and head, k's and v's by head and position.
      Array<T> q(positions * shape.num_heads * size, shift);
      Array<T> k(positions * shape.num_kv_heads * size, shift);
      Array<T> v(positions * shape.num_kv_heads * size, shift);
      for (int64_t n = 0; n < positions; ++n) {
        const int64_t b = n / shape.length, t = n % shape.length;
        for (int64_t i = 0; i < width; ++i) {
          const int64_t head = i / size, kv_head = (head - shape.num_heads) % shape.num_kv_heads;
          const int64_t in_head =
              ((b * shape.num_kv_heads + kv_head) * shape.length + t) * size + i % size;
          const double value = qkv.at(n * width + i);
          if (head < shape.num_heads) {
            q.set(n * shape.num_heads * size + i, value);
          } else {
            (head < rotated ? k : v).set(in_head, value);
          }
          if (head >= rotated) {
            EXPECT_EQ(value, before[static_cast<size_t>(n * width + i)]) << "v";
          }
        }
      }
      const cuda::HeadsView q_view{q.data(), shape.length * shape.num_heads * size, size,
                                   shape.num_heads * size};
      const auto by_head = [&](Array<T>& x) {
        return cuda::HeadsView{x.data(), shape.num_kv_heads * shape.length * size,
                               shape.length * size, size};
      };
      cuda::qkv_rope_backward(call, q_view, by_head(k), by_head(v), cos.data(), sin.data(),
                              back.data(), shape);
      // A rotation's transpose is its inverse.
      expect_near(back.values(), before, 2 * tolerance<T>(), "back");
      return together({qkv.values(), back.values()});
    });
  }
}

TYPED_TEST(OperatorKernels, Swiglu) {
  using T = TypeParam;
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{1, 1}, {3, 7}, {4, 64}, {2, 2056}};
  for (const auto& [rows, dim] : shapes) {
    SCOPED_TRACE(::testing::Message() << rows << " rows of " << dim);
    in_every_way([&, rows = rows, dim = dim](int64_t shift) {
      Array<T> gate_up(2 * rows * dim, shift), y(rows * dim, shift), dy(rows * dim, shift);
      Array<T> d_gate_up(2 * rows * dim, shift), d_alone(2 * rows * dim, shift);
      Array<T> y_again(rows * dim, shift);
      gate_up.fill(1, 4);
      dy.fill(2);
      std::vector<double> expected_y, expected_d(gate_up.values().size());
      for (int64_t i = 0; i < rows * dim; ++i) {
        const int64_t at = i / dim * 2 * dim + i % dim;
        const double gate = gate_up.at(at), up = gate_up.at(at + dim), g = dy.at(i);
        const double s = 1 / (1 + std::exp(-gate));
        expected_y.push_back(gate * s * up);
        expected_d[static_cast<size_t>(at)] = g * up * (s + gate * s * (1 - s));
        expected_d[static_cast<size_t>(at + dim)] = g * gate * s;
      }
      const cuda::Call call{type_of<T>(), nullptr};
      cuda::swiglu_forward(call, gate_up.data(), y.data(), nullptr, rows, dim);
      cuda::swiglu_backward(call, dy.data(), gate_up.data(), d_gate_up.data(), y_again.data(),
                            nullptr, rows, dim);
      cuda::swiglu_backward(call, dy.data(), gate_up.data(), d_alone.data(), nullptr, nullptr, rows,
                            dim);
      expect_near(y.values(), expected_y, tolerance<T>(), "y");
      expect_near(d_gate_up.values(), expected_d, tolerance<T>(), "d_gate_up");
      EXPECT_EQ(y_again.values(), y.values());
      EXPECT_EQ(d_alone.values(), d_gate_up.values());
      return together({y.values(), d_gate_up.values()});
    });
  }
}

// What fp8 needs is what the pass for amax finds.
TYPED_TEST(OperatorKernels, SwigluTellsTheLargest) {
  using T = TypeParam;
  for (const auto& [rows, dim] : {std::pair{1, 1}, std::pair{70, 7}, std::pair{3, 2056}}) {
    for (const bool with_nan : {false, true}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows of " << dim);
      Array<T> gate_up(2 * rows * dim), y(rows * dim), dy(rows * dim), d_gate_up(2 * rows * dim);
      gate_up.fill(1, 4);
      dy.fill(2);
      if (with_nan) gate_up.set(rows * dim, NAN);
      const auto largest_of = [](const std::vector<float>& amax) {
        float largest = 0;
        for (const float x : amax) largest = x > largest || std::isnan(x) ? x : largest;
        return largest;
      };
      const cuda::Call call{type_of<T>(), nullptr};
      const auto check = [&](const std::vector<float>& amax, Array<T>& written) {
        std::vector<float> expected(static_cast<size_t>(cuda::fp8_amax_parts(written.size())));
        cuda::fp8_amax(call, written.data(), expected.data(), written.size());
        const float largest = largest_of(amax);
        EXPECT_EQ(std::isnan(largest), with_nan);
        if (!with_nan) {
          EXPECT_EQ(largest, largest_of(expected));
        }
      };
      std::vector<float> amax(cuda::kSwigluAmaxParts), d_amax(cuda::kSwigluAmaxParts);
      cuda::swiglu_forward(call, gate_up.data(), y.data(), amax.data(), rows, dim);
      check(amax, y);
      cuda::swiglu_backward(call, dy.data(), gate_up.data(), d_gate_up.data(), nullptr,
                            d_amax.data(), rows, dim);
      check(d_amax, d_gate_up);
    }
  }
}

TYPED_TEST(OperatorKernels, CrossEntropy) {
  using T = TypeParam;
  constexpr double kGradScale = 0.5;
  for (const int64_t vocab : {1, 5, 8, 67, 1000, 32003}) {
    for (const double z_loss : {0.0, 1e-2}) {
      SCOPED_TRACE(::testing::Message() << "vocabulary of " << vocab << ", z-loss " << z_loss);
      in_every_way([&](int64_t shift) {
        const std::vector<int64_t> targets = {vocab - 1, -100, 0, vocab};
        const auto rows = static_cast<int64_t>(targets.size());
        Array<T> logits(rows * vocab, shift), untouched(rows * vocab, shift);
        Array<float> losses(rows, shift), losses_alone(rows, shift);
        logits.fill(1, 5);
        untouched.fill(1, 5);
        std::vector<double> expected_losses, expected;
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t target = targets[static_cast<size_t>(row)];
          double sum = 0;
          for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits.at(row * vocab + i));
          const bool counts = target >= 0 && target < vocab;
          if (target < vocab) {
            expected_losses.push_back(counts ? std::log(sum) - logits.at(row * vocab + target) : 0);
          }
          for (int64_t i = 0; i < vocab && target < vocab; ++i) {
            const double p = std::exp(logits.at(row * vocab + i)) / sum;
            const double d = p * (1 + 2 * z_loss * std::log(sum)) - (i == target ? 1 : 0);
            expected.push_back(counts ? d * kGradScale : 0);
          }
        }
        const cuda::Call call{type_of<T>(), nullptr};
        cuda::cross_entropy(call, logits.data(), targets.data(), losses.data(), rows, vocab,
                            &kGradScale, static_cast<float>(z_loss));
        cuda::cross_entropy(call, untouched.data(), targets.data(), losses_alone.data(), rows,
                            vocab, nullptr, static_cast<float>(z_loss));
        auto got_losses = losses.values(), got = logits.values();
        // The last row's target is not in the vocabulary.
        EXPECT_TRUE(std::isnan(got_losses.back()));
        for (int64_t i = 3 * vocab; i < rows * vocab; ++i) EXPECT_TRUE(std::isnan(logits.at(i)));
        got_losses.pop_back();
        got.resize(static_cast<size_t>(3 * vocab));
        expect_near(got_losses, expected_losses, 1e-5, "losses");
        expect_near(got, expected, tolerance<T>(), "gradient");
        Array<T> before(rows * vocab, shift);
        before.fill(1, 5);
        EXPECT_EQ(untouched.values(), before.values());
        for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(losses.at(row), losses_alone.at(row));
        return together({got_losses, got});
      });
    }
  }
}

TYPED_TEST(OperatorKernels, CrossEntropyOfLogitsThatAreNotNumbers) {
  using T = TypeParam;
  constexpr int64_t kVocab = 67;
  for (const int64_t index : {0, 30, 66}) {
    Array<T> logits(2 * kVocab);
    Array<float> losses(2);
    const std::vector<int64_t> targets = {1, 1};
    logits.fill(1);
    logits.set(index, NAN);
    for (int64_t i = kVocab + 2; i < 2 * kVocab; ++i) logits.set(i, -INFINITY);
    constexpr double kGradScale = 1;
    cuda::cross_entropy({type_of<T>(), nullptr}, logits.data(), targets.data(), losses.data(), 2,
                        kVocab, &kGradScale, 0);
    EXPECT_TRUE(std::isnan(losses.at(0)));
    for (int64_t i = 0; i < kVocab; ++i) EXPECT_TRUE(std::isnan(logits.at(i)));
    // -inf is a logit like any other: probability 0.
    EXPECT_TRUE(std::isfinite(losses.at(1)));
    EXPECT_NEAR(logits.at(kVocab) + logits.at(kVocab + 1), 0, 2e-2);
    for (int64_t i = kVocab + 2; i < 2 * kVocab; ++i) EXPECT_EQ(logits.at(i), 0);
  }
}

TYPED_TEST(OperatorKernels, ScaleBy) {
  using T = TypeParam;
  for (const float factor : {1.0F, 0.5F}) {
    in_every_way([&](int64_t shift) {
      Array<T> x(1003, shift);
      x.fill(1);
      std::vector<double> expected = x.values();
      for (double& value : expected) value *= static_cast<double>(factor);
      cuda::scale_by({type_of<T>(), nullptr}, x.data(), x.size(), &factor);
      expect_near(x.values(), expected, 1e-7, "x");
      return x.values();
    });
  }
}

TYPED_TEST(OperatorKernels, EmbeddingBackward) {
  using T = TypeParam;
  constexpr int64_t kVocab = 11;
  // One position; a chunk's borders; ids that go over several chunks; a vocabulary of one.
  const std::vector<std::pair<int64_t, int64_t>> cases = {{1, 11},  {32, 11},  {33, 2},
                                                          {200, 3}, {200, 11}, {129, 1}};
  for (const auto& [count, used] : cases) {
    for (const int64_t dim : {1, 24, 37}) {
      SCOPED_TRACE(::testing::Message() << count << " positions of " << used << " ids, " << dim);
      in_every_way([&, count = count, used = used](int64_t shift) {
        std::vector<int64_t> ids, order(static_cast<size_t>(count));
        std::vector<int32_t> sorted;
        for (int64_t i = 0; i < count; ++i) {
          // Id 0 has half of all positions.
          const auto drawn =
              static_cast<int64_t>(random_bits(1, RandomStream::kInit, static_cast<uint64_t>(i)) %
                                   static_cast<uint64_t>(2 * used));
          ids.push_back(drawn < used ? drawn : 0);
        }
        std::iota(order.begin(), order.end(), int64_t{0});
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)];
        });
        for (const int64_t position : order)
          sorted.push_back(static_cast<int32_t>(ids[static_cast<size_t>(position)]));
        Array<T> dy(count * dim, shift), d_weight(kVocab * dim, shift);
        Array<float> partial(cuda::embedding_partials(count) * dim, shift);
        dy.fill(1);
        for (int64_t i = 0; i < d_weight.size(); ++i) d_weight.set(i, 0);
        std::vector<double> expected(d_weight.values().size());
        for (int64_t i = 0; i < count * dim; ++i) {
          expected[static_cast<size_t>(ids[static_cast<size_t>(i / dim)] * dim + i % dim)] +=
              dy.at(i);
        }
        cuda::embedding_backward({type_of<T>(), nullptr}, dy.data(), sorted.data(), order.data(),
                                 d_weight.data(), partial.data(), count, dim);
        expect_near(d_weight.values(), expected, tolerance<T>(), "d_weight");
        return d_weight.values();
      });
    }
  }
}

}  // namespace
}  // namespace lmtrain::emulated
