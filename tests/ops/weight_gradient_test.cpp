// Gradients of weights that are added where they end up. On a GPU: tests/gpu/operators_test.cpp.
#include "ops/weight_gradient.h"

#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "ops/accumulate.h"
#include "ops/matmul.h"
#include "ops/operators.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::random_tensor;
using testing::same_bits;

constexpr int64_t kPositions = 40, kIn = 24, kOut = 48;

TEST(AddProduct, HasTheBitsOfAProductThatIsAccumulated) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor dy = random_tensor({kPositions, kOut}, 1, dtype);
    const at::Tensor x = random_tensor({kPositions, kIn}, 2, dtype);
    const at::Tensor expected = at::empty({kOut * kIn}), sum = at::full({kOut, kIn}, NAN);
    for (const bool first : {true, false, false}) {
      accumulate(product(dy.t(), x), expected, first);
      add_product(dy.t(), x, sum, first);
      EXPECT_TRUE(same_bits(sum.view(-1), expected)) << dtype << " " << first;
    }
  }
}

struct Gradients {
  at::Tensor x, weight;  // undefined where autograd has none
};

// The gradients of f(x, weight) where that of its value is `dy`.
template <class F>
Gradients gradients_of(const F& f, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& dy) {
  const at::Tensor input = x.detach().set_requires_grad(true);
  const auto grads = torch::autograd::grad({f(input, weight)}, {input, weight}, {dy}, std::nullopt,
                                           /*create_graph=*/false, /*allow_unused=*/true);
  return {grads[0], grads[1]};
}

// linear and swiglu_linear: the gradient that autograd would have given, where it was asked to be.
TEST(GradientSums, TakeTheGradientsOfTheirWeights) {
  struct Case {
    at::Tensor (*function)(const at::Tensor&, const at::Tensor&);
    int64_t in;
  };
  for (const Case& test : {Case{linear, kIn}, Case{swiglu_linear, 2 * kIn}}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const at::Tensor x = random_tensor({2, kPositions / 2, test.in}, 1, dtype);
      const at::Tensor dy = random_tensor({2, kPositions / 2, kOut}, 2, dtype);
      const at::Tensor weight = random_tensor({kOut, kIn}, 3, dtype).set_requires_grad(true);
      const at::Tensor other = random_tensor({kOut, kIn}, 4, dtype).set_requires_grad(true);
      const Gradients alone = gradients_of(test.function, x, weight, dy);
      const at::Tensor expected = at::empty({kOut * kIn}), sum = at::full({kOut * kIn}, NAN);
      for (const bool first : {true, false}) {
        accumulate(alone.weight, expected, first);
        accumulate(alone.weight, expected, false);
        GradientSums sums;
        sums.expect(weight, sum, first);
        EXPECT_FALSE(sums.has(weight));
        // Twice in a backward: the second is added.
        for (int time = 0; time < 2; ++time) {
          const Gradients gradients = gradients_of(test.function, x, weight, dy);
          EXPECT_FALSE(gradients.weight.defined());
          EXPECT_TRUE(same_bits(gradients.x, alone.x));
        }
        EXPECT_TRUE(sums.has(weight));
        EXPECT_TRUE(same_bits(sum, expected));
        EXPECT_TRUE(gradients_of(test.function, x, other, dy).weight.defined()) << "not expected";
        EXPECT_FALSE(sums.has(other));
      }
      EXPECT_TRUE(same_bits(gradients_of(test.function, x, weight, dy).weight, alone.weight));
    }
  }
}

TEST(GradientSums, ThereIsOneAtATime) {
  const GradientSums sums;
  EXPECT_THROW(GradientSums(), Error);
}

}  // namespace
}  // namespace lmtrain
