// The reference; its kernel is a GPU's (gpu/operators_test.cpp, emulation/). On a CPU
// rope_attention rotates (attention_test.cpp).
#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
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

}  // namespace
}  // namespace lmtrain
