#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
using testing::check_operator;
using testing::check_thread_independence;
using testing::Operator;
using testing::random_tensor;
using testing::same_bits;

constexpr double kEps = 1e-5;

using Function = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t,
                                int64_t, double);

Operator of(Function function, int64_t heads, int64_t kv_heads) {
  return [=](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{function(in[0], in[1], in[2], heads, kv_heads, kEps)};
  };
}

std::vector<at::Tensor> inputs(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads,
                               int64_t size) {
  return {random_tensor({batch, length, (heads + 2 * kv_heads) * size}, 1),
          random_tensor({size}, 2), random_tensor({size}, 3)};
}

TEST(QkNorm, EqualsItsReferenceOverShapes) {
  struct Shape {
    int64_t batch, length, heads, kv_heads, size;
  };
  for (const Shape& s : std::vector<Shape>{{1, 1, 1, 1, 2},
                                           {2, 5, 4, 4, 16},
                                           {3, 7, 4, 2, 6},
                                           {2, 33, 6, 1, 64},
                                           {1, 300, 2, 2, 128},
                                           {7, 9, 5, 5, 31}}) {
    SCOPED_TRACE(s.size);
    check_operator(of(qk_norm, s.heads, s.kv_heads), of(qk_norm_reference, s.heads, s.kv_heads),
                   inputs(s.batch, s.length, s.heads, s.kv_heads, s.size));
  }
}

TEST(QkNorm, ReferenceHasTheGradientOfItsValue) {
  check_gradient(of(qk_norm_reference, 2, 1), inputs(2, 3, 2, 1, 4));
}

// Queries by the first weight, keys by the second, each head alone; values are not touched.
TEST(QkNorm, IsTheNormOfEachHead) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const int64_t heads = 4, kv_heads = 2, size = 24;
    std::vector<at::Tensor> in = inputs(2, 9, heads, kv_heads, size);
    for (at::Tensor& one : in) one = one.to(dtype);
    const at::Tensor y = qk_norm(in[0], in[1], in[2], heads, kv_heads, kEps);
    const at::Tensor before = in[0].unflatten(-1, {heads + 2 * kv_heads, size});
    const at::Tensor after = y.unflatten(-1, {heads + 2 * kv_heads, size});
    for (int64_t head = 0; head < heads + 2 * kv_heads; ++head) {
      const at::Tensor x = before.select(2, head).contiguous();
      const bool is_value = head >= heads + kv_heads;
      const at::Tensor expected =
          is_value ? x
                   : std::get<1>(add_rms_norm(x, std::nullopt, head < heads ? in[1] : in[2], kEps));
      EXPECT_TRUE(same_bits(after.select(2, head).contiguous(), expected)) << head;
    }
  }
}

TEST(QkNorm, ReadsInputsThatAreNotContiguous) {
  const auto transposed = [](Function function) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{
          function(in[0].transpose(0, 1), in[1].slice(0, 0, std::nullopt, 2), in[2], 2, 1, kEps)
              .transpose(0, 1)};
    };
  };
  check_operator(transposed(qk_norm), transposed(qk_norm_reference),
                 {random_tensor({5, 3, 32}, 4), random_tensor({16}, 5), random_tensor({8}, 6)});
}

TEST(QkNorm, BitsDoNotDependOnThreads) {
  check_thread_independence(of(qk_norm, 8, 4), inputs(3, 123, 8, 4, 32));
}

}  // namespace
}  // namespace lmtrain
