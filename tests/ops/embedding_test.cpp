#include <ATen/ops/one_hot.h>

#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
using testing::check_operator;
using testing::check_thread_independence;
using testing::Operator;
using testing::random_integers;
using testing::random_tensor;

Operator ours(const at::Tensor& ids) {
  return [=](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{lmtrain::embedding(ids, in[0])};
  };
}

// Rows by a product with one-hot vectors: nothing in common with what it checks.
Operator product_with_one_hot(const at::Tensor& ids) {
  return [=](const std::vector<at::Tensor>& in) {
    const at::Tensor rows = at::one_hot(ids, in[0].size(0)).to(in[0].scalar_type());
    return std::vector<at::Tensor>{at::matmul(rows, in[0])};
  };
}

TEST(Embedding, TakesRowsAndSumsTheirGradients) {
  check_operator(ours(random_integers(0, 5, {1, 1}, 1)),
                 product_with_one_hot(random_integers(0, 5, {1, 1}, 1)),
                 {random_tensor({5, 3}, 2)});
  const at::Tensor ids = random_integers(0, 11, {3, 7}, 3);  // some twice, some never
  check_operator(ours(ids), product_with_one_hot(ids), {random_tensor({11, 6}, 4)});
  const at::Tensor strided = random_integers(0, 33, {9, 4}, 5).transpose(0, 1);
  check_operator(ours(strided), product_with_one_hot(strided), {random_tensor({33, 17}, 6)});
}

// 1 + 1 + ... in bf16 stops at 256.
TEST(Embedding, SumsAFrequentTokenInFullPrecision) {
  const at::Tensor weight = at::zeros({2, 3}, at::kBFloat16).requires_grad_(true);
  const at::Tensor ids = at::ones({4, 1024}, at::kLong);
  const at::Tensor y = lmtrain::embedding(ids, weight);
  const at::Tensor gradient = torch::autograd::grad({y}, {weight}, {at::ones_like(y)})[0];
  EXPECT_EQ(gradient.scalar_type(), at::kBFloat16);
  EXPECT_TRUE((gradient[1] == 4096).all().item<bool>());
  EXPECT_TRUE((gradient[0] == 0).all().item<bool>());
}

TEST(Embedding, HasTheGradientOfItsValue) {
  check_gradient(ours(random_integers(0, 5, {3, 4}, 9)), {random_tensor({5, 3}, 10)});
}

TEST(Embedding, BitsDoNotDependOnThreads) {
  check_thread_independence(ours(random_integers(0, 1031, {3, 777}, 7)),
                            {random_tensor({1031, 65}, 8)});
}

}  // namespace
}  // namespace lmtrain
