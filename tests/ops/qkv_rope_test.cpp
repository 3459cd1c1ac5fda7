#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
using testing::check_operator;
using testing::check_thread_independence;
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

const std::vector<Shape> kShapes = {{1, 1, 1, 1, 2},   {1, 1, 4, 4, 6},   {3, 7, 4, 2, 6},
                                    {2, 33, 8, 1, 10}, {1, 65, 3, 3, 64}, {5, 1, 6, 3, 34},
                                    {2, 50, 9, 3, 16}};

TEST(QkvRope, EqualsItsReferenceOverShapes) {
  for (size_t i = 0; i < kShapes.size(); ++i) {
    SCOPED_TRACE(i);
    const Shape& shape = kShapes[i];
    check_operator(of(qkv_rope, shape), of(qkv_rope_reference, shape),
                   {random_tensor({shape.batch, shape.length, shape.width()}, i)});
  }
}

TEST(QkvRope, GivesHeadsByPositionAndRotatesQueriesAndKeysAlone) {
  const Shape shape = {2, 3, 4, 2, 6};
  const at::Tensor qkv = random_tensor({2, 3, shape.width()}, 30);
  const auto [cos, sin] = angles(shape);
  const auto [q, k, v] = qkv_rope(qkv, cos, sin, 4, 2);
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

TEST(QkvRope, ReadsInputsAndGradientsThatAreNotContiguous) {
  const Shape shape = {3, 7, 4, 2, 6};
  const auto [cos_TR, sin_TR] = angles(shape);
  // The tables as slices of wider ones, the input as a transpose.
  const at::Tensor cos = at::cat({cos_TR, cos_TR}, 1).narrow(1, 0, 3);
  const at::Tensor sin = at::cat({sin_TR, sin_TR}, 1).narrow(1, 0, 3);
  const auto strided = [&](Function function) {
    return [=](const std::vector<at::Tensor>& in) {
      const auto [q, k, v] = function(in[0].transpose(0, 2), cos, sin, 4, 2);
      // Transposes of the outputs make their gradients come in other layouts: head size not last
      // in memory for q, contiguous [B, K, T, E] for v.
      return std::vector<at::Tensor>{q.transpose(2, 3).contiguous(), k.transpose(0, 1),
                                     v.contiguous()};
    };
  };
  check_operator(strided(qkv_rope), strided(qkv_rope_reference),
                 {random_tensor({shape.width(), 7, 3}, 31)});
}

// With segments every position of the batch has a row of angles of its own.
TEST(QkvRope, TakesARowOfAnglesForEveryPosition) {
  const Shape shape = {3, 7, 4, 2, 6};
  const at::Tensor angle = 3 * random_tensor({3 * 7, 3}, 78);
  const at::Tensor cos = angle.cos(), sin = angle.sin();
  const auto each = [&](Function function) {
    return [=](const std::vector<at::Tensor>& in) {
      const auto [q, k, v] = function(in[0], cos, sin, 4, 2);
      return std::vector<at::Tensor>{q, k, v};
    };
  };
  const at::Tensor qkv = random_tensor({3, 7, shape.width()}, 36);
  check_operator(each(qkv_rope), each(qkv_rope_reference), {qkv});
  // The second row is as it would be alone with its angles.
  const auto [q, k, v] = qkv_rope(qkv, cos, sin, 4, 2);
  const auto [q1, k1, v1] =
      qkv_rope(qkv.narrow(0, 1, 1), cos.narrow(0, 7, 7), sin.narrow(0, 7, 7), 4, 2);
  EXPECT_TRUE(testing::same_bits(q.narrow(0, 1, 1), q1));
  EXPECT_TRUE(testing::same_bits(k.narrow(0, 1, 1), k1));
}

TEST(QkvRope, OutputsThatAreNotUsedHaveNoGradient) {
  const Shape shape = {2, 5, 4, 2, 6};
  for (size_t used = 0; used < 3; ++used) {
    const auto only = [&](Function function) {
      return [=, op = of(function, shape)](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{op(in)[used]};
      };
    };
    check_operator(only(qkv_rope), only(qkv_rope_reference),
                   {random_tensor({2, 5, shape.width()}, 32)});
  }
}

TEST(QkvRope, ReferenceHasTheGradientOfItsValue) {
  const Shape shape = {2, 3, 2, 1, 4};
  check_gradient(of(qkv_rope_reference, shape), {random_tensor({2, 3, shape.width()}, 33)});
}

TEST(QkvRope, NaNStaysInItsPair) {
  const Shape shape = {1, 2, 1, 1, 8};
  at::Tensor qkv = random_tensor({1, 2, shape.width()}, 34);
  qkv[0][1][2] = std::numeric_limits<float>::quiet_NaN();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto outcome = testing::run_operator(of(qkv_rope, shape), {qkv}, dtype);
    EXPECT_TRUE(outcome.outputs[0][0][0][1][2].isnan().item<bool>());
    EXPECT_TRUE(outcome.outputs[0][0][0][1][6].isnan().item<bool>());
    EXPECT_EQ(outcome.outputs[0].isnan().sum().item<int64_t>(), 2);
    EXPECT_FALSE(outcome.outputs[1].isnan().any().item<bool>());
    EXPECT_FALSE(outcome.outputs[2].isnan().any().item<bool>());
  }
}

TEST(QkvRope, BitsDoNotDependOnThreads) {
  const Shape shape = {3, 123, 6, 2, 34};
  check_thread_independence(of(qkv_rope, shape), {random_tensor({3, 123, shape.width()}, 35)});
}

}  // namespace
}  // namespace lmtrain
