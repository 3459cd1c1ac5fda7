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

Operator of(at::Tensor (*function)(const at::Tensor&, const at::Tensor&)) {
  return [=](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{function(in[0], in[1])};
  };
}

std::vector<at::Tensor> inputs(int64_t batch, int64_t length, int64_t width) {
  return {random_tensor({batch, length, width}, 1), random_tensor({width}, 2)};
}

TEST(AddBias, EqualsItsReferenceOverShapes) {
  struct Shape {
    int64_t batch, length, width;
  };
  for (const Shape& s : std::vector<Shape>{
           {1, 1, 1}, {2, 5, 16}, {3, 7, 33}, {1, 31, 64}, {4, 100, 24}, {7, 9, 130}}) {
    SCOPED_TRACE(s.width);
    check_operator(of(add_bias), of(add_bias_reference), inputs(s.batch, s.length, s.width));
  }
}

TEST(AddBias, ReferenceHasTheGradientOfItsValue) {
  check_gradient(of(add_bias_reference), inputs(2, 3, 4));
}

TEST(AddBias, ValueIsTheRoundedSum) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor x = random_tensor({2, 9, 24}, 1).to(dtype);
    const at::Tensor bias = random_tensor({24}, 2).to(dtype);
    EXPECT_TRUE(same_bits(add_bias(x, bias), (x.to(at::kFloat) + bias.to(at::kFloat)).to(dtype)));
  }
}

// A sum in bf16 would stop growing at 256.
TEST(AddBias, GradientOfTheBiasIsSummedInFp32) {
  const at::Tensor x = at::zeros({4, 1000, 3}, at::kBFloat16).set_requires_grad(true);
  const at::Tensor bias = at::zeros({3}, at::kBFloat16).set_requires_grad(true);
  const at::Tensor y = add_bias(x, bias);
  const auto gradients = torch::autograd::grad({y}, {x, bias}, {at::ones_like(y)});
  EXPECT_TRUE(gradients[0].eq(1).all().item<bool>());
  EXPECT_TRUE(gradients[1].eq(4000).all().item<bool>()) << gradients[1];
}

TEST(AddBias, ReadsInputsThatAreNotContiguous) {
  const auto transposed = [](at::Tensor (*function)(const at::Tensor&, const at::Tensor&)) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{
          function(in[0].transpose(0, 1), in[1].slice(0, 0, std::nullopt, 2)).transpose(0, 1)};
    };
  };
  check_operator(transposed(add_bias), transposed(add_bias_reference),
                 {random_tensor({5, 3, 8}, 4), random_tensor({16}, 5)});
}

TEST(AddBias, BitsDoNotDependOnThreads) {
  check_thread_independence(of(add_bias), inputs(3, 123, 384));
}

}  // namespace
}  // namespace lmtrain
