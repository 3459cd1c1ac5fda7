// The reference, and the rotation in place, which is a GPU's: here by ATen, by its kernel in
// gpu/operators_test.cpp and emulation/. On a CPU rope_attention rotates (attention_test.cpp).
#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
using testing::check_operator;
using testing::Operator;
using testing::random_tensor;

using Function = std::tuple<at::Tensor, at::Tensor, at::Tensor> (*)(const at::Tensor&,
                                                                    const at::Tensor&,
                                                                    const at::Tensor&, int64_t,
                                                                    int64_t);

struct Shape {
  int64_t batch, length, heads, kv_heads, size;
  int64_t width() const { return (heads + 2 * kv_heads) * size; }
};

// The angles are not smooth in position on purpose: a row that takes its neighbour's shows.
std::pair<at::Tensor, at::Tensor> angles(const Shape& shape) {
  const at::Tensor angle = 3 * random_tensor({shape.length, shape.size / 2}, 77);
  return {angle.cos(), angle.sin()};
}

Operator of(Function function, const Shape& shape) {
  const auto [cos, sin] = angles(shape);
  return [=, cos = cos, sin = sin](const std::vector<at::Tensor>& in) {
    const auto [q, k, v] = function(in[0], cos, sin, shape.heads, shape.kv_heads);
    return std::vector<at::Tensor>{q, k, v};
  };
}

TEST(QkvRope, GivesHeadsByPositionAndRotatesQueriesAndKeysAlone) {
  const Shape shape = {2, 3, 4, 2, 6};
  const at::Tensor qkv = random_tensor({2, 3, shape.width()}, 30);
  const auto [cos, sin] = angles(shape);
  const auto [q, k, v] = qkv_rope_reference(qkv, cos, sin, 4, 2);
  EXPECT_EQ(q.sizes(), at::IntArrayRef({2, 4, 3, 6}));
  EXPECT_EQ(k.sizes(), at::IntArrayRef({2, 2, 3, 6}));
  EXPECT_EQ(v.sizes(), at::IntArrayRef({2, 2, 3, 6}));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < 3; ++t) {
      const auto in = [&](int64_t c) { return qkv[b][t][c].item<float>(); };
      for (int64_t e = 0; e < 6; ++e) {
        EXPECT_EQ(v[b][1][t][e].item<float>(), in((4 + 2 + 1) * 6 + e));
      }
      for (int64_t r = 0; r < 3; ++r) {
        const float c = cos[t][r].item<float>(), s = sin[t][r].item<float>();
        const float a = in(3 * 6 + r), b2 = in(3 * 6 + 3 + r);  // the last query head
        EXPECT_NEAR(q[b][3][t][r].item<float>(), a * c - b2 * s, 1e-6);
        EXPECT_NEAR(q[b][3][t][r + 3].item<float>(), b2 * c + a * s, 1e-6);
        const float ka = in((4 + 1) * 6 + r), kb = in((4 + 1) * 6 + 3 + r);  // the last key head
        EXPECT_NEAR(k[b][1][t][r].item<float>(), ka * c - kb * s, 1e-6);
      }
    }
  }
}

TEST(QkvRope, ReferenceHasTheGradientOfItsValue) {
  const Shape shape = {2, 3, 2, 1, 4};
  check_gradient(of(qkv_rope_reference, shape), {random_tensor({2, 3, shape.width()}, 33)});
}

const std::vector<Shape> kShapes = {{1, 1, 1, 1, 2}, {2, 3, 4, 2, 6}, {3, 5, 6, 1, 8}};

TEST(QkvRopeInPlace, EqualsTheReference) {
  for (const Shape& shape : kShapes) {
    check_operator(of(qkv_rope_in_place, shape), of(qkv_rope_reference, shape),
                   {random_tensor({shape.batch, shape.length, shape.width()}, 34)});
  }
}

TEST(QkvRopeInPlace, HandsOutViewsOfItsInput) {
  const Shape shape = {2, 3, 4, 2, 6};
  const auto [cos, sin] = angles(shape);
  const at::Tensor qkv = random_tensor({2, 3, shape.width()}, 35), before = qkv.clone();
  const auto [q, k, v] = qkv_rope_in_place(qkv, cos, sin, 4, 2);
  EXPECT_EQ(q.data_ptr(), qkv.data_ptr());
  for (const at::Tensor& heads : {q, k, v}) {
    EXPECT_TRUE(heads.is_alias_of(qkv));
    EXPECT_EQ(heads.stride(-1), 1);
  }
  EXPECT_TRUE(at::equal(v, std::get<2>(qkv_rope_reference(before, cos, sin, 4, 2))));
  EXPECT_FALSE(at::equal(qkv, before));
  // What it must copy to read, it leaves as it was.
  const at::Tensor strided = before.transpose(0, 1).contiguous().transpose(0, 1);
  ASSERT_FALSE(strided.is_contiguous());
  const auto of_copy = qkv_rope_in_place(strided, cos, sin, 4, 2);
  EXPECT_TRUE(at::equal(std::get<0>(of_copy), q));
  EXPECT_TRUE(at::equal(strided, before));
}

TEST(QkvRopeInPlace, WhatHasKeptItsInputFindsItChanged) {
  const Shape shape = {1, 3, 2, 1, 4};
  const auto [cos, sin] = angles(shape);
  const at::Tensor leaf = random_tensor({1, 3, shape.width()}, 38).requires_grad_(true);
  const at::Tensor qkv = leaf * 2, kept = qkv * qkv;
  const auto [q, k, v] = qkv_rope_in_place(qkv, cos, sin, 2, 1);
  EXPECT_THROW(torch::autograd::grad({kept.sum() + q.sum()}, {leaf}), c10::Error);
}

// As on a GPU: the product before, the rotation in its result, attention of the views.
TEST(QkvRopeInPlace, IsPartOfAGraphBetweenAProductAndAttention) {
  const Shape shape = {2, 9, 4, 2, 6};
  const auto [cos, sin] = angles(shape);
  const auto attend = [&, cos = cos, sin = sin](Function rotate) {
    return [=](const std::vector<at::Tensor>& in) {
      const at::Tensor qkv = at::linear(in[0], in[1]);
      const auto [q, k, v] = rotate(qkv, cos, sin, shape.heads, shape.kv_heads);
      return std::vector<at::Tensor>{
          attention_reference(q, k, v, std::nullopt).transpose(1, 2).flatten(2)};
    };
  };
  const std::vector<at::Tensor> inputs = {random_tensor({shape.batch, shape.length, 10}, 36),
                                          random_tensor({shape.width(), 10}, 37)};
  const auto in_place = testing::run_operator(attend(qkv_rope_in_place), inputs, at::kDouble);
  const auto expected = testing::run_operator(attend(qkv_rope_reference), inputs, at::kDouble);
  testing::expect_near(in_place, expected, 1e-12);
  check_gradient(attend(qkv_rope_in_place), inputs);
}

// None of the operators whose results a layer rotates keeps its result.
TEST(QkvRopeInPlace, ChangesNothingThatALayersProductOrNormHasKept) {
  const Shape shape = {2, 9, 4, 2, 8};
  const auto [cos, sin] = angles(shape);
  const at::Tensor norm = random_tensor({shape.size}, 39);
  const auto norms = [&](const at::Tensor& qkv) {
    return qk_norm(qkv, norm.to(qkv.dtype()), norm.to(qkv.dtype()), shape.heads, shape.kv_heads,
                   1e-5);
  };
  const auto inputs = std::vector{random_tensor({shape.batch, shape.length, 16}, 40),
                                  random_tensor({shape.width(), 16}, 41)};
  for (const auto product : {&lmtrain::linear, &fp8_linear}) {
    for (const bool has_norm : {false, true}) {
      const auto attend = [&, cos = cos, sin = sin](Function rotate) {
        return [=](const std::vector<at::Tensor>& in) {
          const at::Tensor qkv = product(in[0], in[1]);
          const auto [q, k, v] =
              rotate(has_norm ? norms(qkv) : qkv, cos, sin, shape.heads, shape.kv_heads);
          return std::vector<at::Tensor>{q, k, v};
        };
      };
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        testing::expect_near(testing::run_operator(attend(qkv_rope_in_place), inputs, dtype),
                             testing::run_operator(attend(qkv_rope_reference), inputs, dtype),
                             dtype == at::kFloat ? 1e-5 : testing::kBf16Tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace lmtrain
