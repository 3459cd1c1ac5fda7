#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::random_integers;
using testing::random_tensor;
using testing::same_bits;

at::Tensor keys_of(int64_t rows) {
  return random_integers(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                         {rows}, 3);
}

TEST(Dropout, HasTheBitsOfItsReference) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const int64_t width : {1, 3, 4, 5, 31, 4096}) {
      const at::Tensor x = random_tensor({5, width}, 1, dtype).set_requires_grad(true);
      const at::Tensor y = dropout(x, keys_of(5), 7, 0.3);
      EXPECT_TRUE(same_bits(y, dropout_reference(x, keys_of(5), 7, 0.3))) << width << dtype;
      const at::Tensor dy = random_tensor({5, width}, 2, dtype);
      EXPECT_TRUE(same_bits(torch::autograd::grad({y}, {x}, {dy})[0],
                            dropout_reference(dy, keys_of(5), 7, 0.3)));
    }
  }
}

TEST(Dropout, LetsTheShareFallOutAndKeepsTheMean) {
  const at::Tensor x = at::ones({8, 50'000});
  for (const double p : {0.0, 0.1, 0.5}) {
    const at::Tensor y = dropout(x, keys_of(8), 0, p);
    const double share = y.eq(0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(share, p, 5 * std::sqrt(p * (1 - p) / 400'000) + 1e-5);
    EXPECT_NEAR(y.max().item<double>(), 1 / (1 - p), 1e-4);
  }
  EXPECT_TRUE(same_bits(dropout(x, keys_of(8), 0, 0), x));
}

TEST(Dropout, IsAFunctionOfKeyAndSite) {
  const at::Tensor x = at::ones({4, 1000}), keys = keys_of(4);
  const at::Tensor y = dropout(x, keys, 5, 0.5);
  EXPECT_TRUE(
      same_bits(y.narrow(0, 2, 2), dropout(x.narrow(0, 2, 2), keys.narrow(0, 2, 2), 5, 0.5)));
  const auto shared = [&](const at::Tensor& a, const at::Tensor& b) {
    return a.eq(b).to(at::kDouble).mean().item<double>();
  };
  EXPECT_NEAR(shared(y, dropout(x, keys, 6, 0.5)), 0.5, 0.05);
  EXPECT_NEAR(shared(y[0], y[1]), 0.5, 0.1);
  EXPECT_NEAR(shared(y, dropout(x, keys + 1, 5, 0.5)), 0.5, 0.05);
}

struct Attended {
  at::Tensor y, d_qkv;
};

Attended attended(const std::optional<at::Tensor>& segments, double p) {
  const int64_t heads = 4, kv_heads = 2, size = 8, length = 12;
  const at::Tensor qkv =
      random_tensor({3, length, (heads + 2 * kv_heads) * size}, 4).set_requires_grad(true);
  const at::Tensor cos = random_tensor({length, size / 2}, 5),
                   sin = random_tensor({length, size / 2}, 6);
  const at::Tensor y =
      p < 0 ? rope_attention(qkv, cos, sin, heads, kv_heads, segments)
            : rope_attention_dropout(qkv, cos, sin, heads, kv_heads, segments, keys_of(3), 1, p);
  return {y.detach(), torch::autograd::grad({y}, {qkv}, {random_tensor(y.sizes(), 7)})[0]};
}

TEST(AttentionDropout, WithoutAShareIsRopeAttention) {
  const at::Tensor bounds = at::tensor(std::vector<int32_t>{0, 5, 12, 24, 29, 36});
  for (const std::optional<at::Tensor>& segments :
       {std::optional<at::Tensor>(), std::optional(bounds)}) {
    const Attended expected = attended(segments, -1), actual = attended(segments, 0);
    EXPECT_LT(testing::largest_difference(actual.y, expected.y), 1e-5);
    EXPECT_LT(testing::largest_difference(actual.d_qkv, expected.d_qkv), 1e-5);
    EXPECT_GT(testing::largest_difference(attended(segments, 0.2).y, expected.y), 0.05);
  }
}

}  // namespace
}  // namespace lmtrain
