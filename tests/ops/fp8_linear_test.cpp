// lm.fp8_linear against the formula of its quantised products, and against a plain linear.
#include "ops/operators.h"
#include "support/fp8.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::Outcome;
using testing::quantised;
using testing::random_tensor;
using testing::run_operator;
using testing::same_bits;

Outcome run(at::Tensor (*function)(const at::Tensor&, const at::Tensor&), const at::Tensor& x,
            const at::Tensor& weight, at::ScalarType dtype = at::kFloat) {
  return run_operator(
      [function](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{function(in[0], in[1])};
      },
      {x, weight}, dtype);
}

double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor e = expected.to(at::kDouble);
  return ((actual.to(at::kDouble) - e).norm() / e.norm()).item<double>();
}

struct Shape {
  int64_t batch, length, in, out;
};
// Positions that are multiples of 16 and that are not, wide and tall weights.
const std::vector<Shape> kShapes = {
    {1, 16, 16, 16}, {1, 1, 32, 48}, {2, 7, 48, 16}, {3, 32, 16, 128}, {2, 40, 144, 80}};

at::Tensor x_of(const Shape& shape, uint64_t seed) {
  return random_tensor({shape.batch, shape.length, shape.in}, seed, at::kBFloat16);
}
at::Tensor weight_of(const Shape& shape, uint64_t seed) {
  return (random_tensor({shape.out, shape.in}, seed) / std::sqrt(static_cast<double>(shape.in)))
      .to(at::kBFloat16);
}

TEST(Fp8Linear, EqualsTheFormulaOfItsQuantisedProducts) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(at::str(shape.batch, " x ", shape.length, " x ", shape.in, " to ", shape.out));
    const at::Tensor x = x_of(shape, 1), weight = weight_of(shape, 2);
    // run_operator goes back from this one.
    const at::Tensor dy = random_tensor({shape.batch, shape.length, shape.out}, 900, at::kBFloat16);
    const at::Tensor x8 = quantised(x, at::kFloat8_e4m3fn).view({-1, shape.in});
    const at::Tensor w8 = quantised(weight, at::kFloat8_e4m3fn);
    const at::Tensor dy8 = quantised(dy, at::kFloat8_e5m2).view({-1, shape.out});
    const Outcome expected{{at::mm(x8, w8.t()).view(dy.sizes())},
                           {at::mm(dy8, w8).view(x.sizes()), at::mm(dy8.t(), x8)}};
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Outcome actual = run(fp8_linear, x, weight, dtype);
      EXPECT_EQ(actual.outputs[0].scalar_type(), dtype);
      testing::expect_near(actual, expected, dtype == at::kFloat ? 2e-6 : 4e-3);
    }
  }
}

TEST(Fp8Linear, IsNearALinearAndNotOne) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(at::str(shape.batch, " x ", shape.length, " x ", shape.in, " to ", shape.out));
    const at::Tensor x = x_of(shape, 3), weight = weight_of(shape, 4);
    const Outcome plain = run(lmtrain::linear, x, weight), fp8 = run(fp8_linear, x, weight);
    const auto check = [](const at::Tensor& actual, const at::Tensor& expected, double most) {
      const double error = relative_error(actual, expected);
      EXPECT_LE(error, most);
      EXPECT_GE(error, 0.1 * most);
    };
    check(fp8.outputs[0], plain.outputs[0], 0.06);
    check(fp8.gradients[0], plain.gradients[0], 0.1);
    check(fp8.gradients[1], plain.gradients[1], 0.1);
  }
}

TEST(Fp8Linear, ScalesWithItsOperandsToTheBit) {
  const Shape shape{2, 10, 64, 48};
  const at::Tensor x = x_of(shape, 5), weight = weight_of(shape, 6);
  const Outcome one = run(fp8_linear, x, weight);
  const Outcome other = run(fp8_linear, x * 1024, weight / 8);
  EXPECT_TRUE(same_bits(other.outputs[0], one.outputs[0] * 128));
  EXPECT_TRUE(same_bits(other.gradients[0], one.gradients[0] / 8));
  EXPECT_TRUE(same_bits(other.gradients[1], one.gradients[1] * 1024));
  // A gradient as small as that of a mean over millions, which e5m2 alone could not hold.
  const at::Tensor leaf = x.to(at::kFloat).requires_grad_(true);
  const at::Tensor w = weight.to(at::kFloat);
  const at::Tensor dy = random_tensor(one.outputs[0].sizes(), 7);
  const auto back = [&](const at::Tensor& gradient) {
    return torch::autograd::grad({fp8_linear(leaf, w)}, {leaf}, {gradient})[0];
  };
  EXPECT_TRUE(same_bits(back(dy * 0x1p-30), back(dy) * 0x1p-30));
  EXPECT_GT(back(dy).abs().min().item<double>(), 0);
}

TEST(Fp8Linear, RowsOfZerosAreAsGoodAsNone) {
  const Shape shape{1, 21, 32, 48};
  const at::Tensor x = x_of(shape, 8).to(at::kFloat), weight = weight_of(shape, 9).to(at::kFloat);
  const at::Tensor dy = random_tensor({1, 21, 48}, 10);
  const auto back = [&](const at::Tensor& input, const at::Tensor& gradient) {
    const at::Tensor leaf = input.clone().requires_grad_(true);
    const at::Tensor w = weight.clone().requires_grad_(true);
    const at::Tensor y = fp8_linear(leaf, w);
    auto results = torch::autograd::grad({y}, {leaf, w}, {gradient});
    results.push_back(y.detach());
    return results;
  };
  const auto alone = back(x, dy);
  const auto padded =
      back(at::constant_pad_nd(x, {0, 0, 0, 11}), at::constant_pad_nd(dy, {0, 0, 0, 11}));
  EXPECT_TRUE(same_bits(padded[0].narrow(1, 0, 21), alone[0]));
  EXPECT_TRUE(same_bits(padded[1], alone[1]));
  EXPECT_TRUE(same_bits(padded[2].narrow(1, 0, 21), alone[2]));
}

TEST(Fp8Linear, ZerosGiveZeros) {
  const Shape shape{1, 16, 32, 16};
  const at::Tensor x = x_of(shape, 11), weight = weight_of(shape, 12);
  const Outcome of_zeros = run(fp8_linear, at::zeros_like(x), weight);
  EXPECT_EQ(of_zeros.outputs[0].count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(of_zeros.gradients[1].count_nonzero().item<int64_t>(), 0);
  EXPECT_GT(of_zeros.gradients[0].count_nonzero().item<int64_t>(), 0);
  const Outcome by_zeros = run(fp8_linear, x, at::zeros_like(weight));
  EXPECT_EQ(by_zeros.outputs[0].count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(by_zeros.gradients[0].count_nonzero().item<int64_t>(), 0);
}

// Saturation must not make numbers of them: the guard judges a step by its loss and its gradient.
TEST(Fp8Linear, WhatIsNotFiniteReachesAllThatItIsMultipliedInto) {
  const Shape shape{1, 24, 32, 16};
  const auto none_finite = [](const at::Tensor& x) { return !x.isfinite().any().item<bool>(); };
  const auto all_finite = [](const at::Tensor& x) { return x.isfinite().all().item<bool>(); };
  for (const double bad : {HUGE_VAL, -HUGE_VAL, static_cast<double>(NAN)}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      at::Tensor x = x_of(shape, 13), weight = weight_of(shape, 14);
      EXPECT_TRUE(all_finite(run(fp8_linear, x, weight, dtype).outputs[0]));
      x[0][20][7] = bad;
      const Outcome of_x = run(fp8_linear, x, weight, dtype);
      EXPECT_TRUE(none_finite(of_x.outputs[0]));
      EXPECT_TRUE(none_finite(of_x.gradients[1]));
      x[0][20][7] = 0;
      weight[3][5] = bad;
      const Outcome of_weight = run(fp8_linear, x, weight, dtype);
      EXPECT_TRUE(none_finite(of_weight.outputs[0]));
      EXPECT_TRUE(none_finite(of_weight.gradients[0]));
      EXPECT_TRUE(all_finite(of_weight.gradients[1]));
      weight[3][5] = 0;
      const at::Tensor leaf = x.to(dtype).requires_grad_(true);
      const at::Tensor w = weight.to(dtype).requires_grad_(true);
      at::Tensor dy = at::ones({1, 24, 16}, dtype);
      dy[0][0][0] = bad;
      for (const at::Tensor& gradient :
           torch::autograd::grad({fp8_linear(leaf, w)}, {leaf, w}, {dy}))
        EXPECT_TRUE(none_finite(gradient));
    }
  }
}

TEST(Fp8Linear, WithoutAGradientTheBitsAreTheSame) {
  const Shape shape{2, 19, 48, 32};
  const at::Tensor x = x_of(shape, 15), weight = weight_of(shape, 16);
  const at::Tensor y = run(fp8_linear, x, weight, at::kBFloat16).outputs[0];
  EXPECT_TRUE(same_bits(fp8_linear(x, weight), y));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(same_bits(fp8_linear(x.clone().requires_grad_(true), weight), y));
}

TEST(Fp8Linear, ReadsInputsThatAreNotContiguous) {
  const at::Tensor x = random_tensor({12, 32, 5}, 17), weight = random_tensor({32, 48}, 18);
  const at::Tensor y = fp8_linear(x.transpose(1, 2), weight.t());
  EXPECT_TRUE(same_bits(y, fp8_linear(x.transpose(1, 2).contiguous(), weight.t().contiguous())));
}

// Positions that are multiples of 16 and that are not.
TEST(Fp8Mlp, HasTheBitsOfItsParts) {
  const auto of = [](auto function) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{function(in[0], in[1], in[2])};
    };
  };
  for (const int64_t length : {1, 16, 21}) {
    const std::vector<at::Tensor> inputs = {random_tensor({2, length, 32}, 21),
                                            random_tensor({96, 32}, 22) / 4,
                                            random_tensor({32, 48}, 23) / 4};
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(at::str(length, " positions, ", dtype));
      const Outcome whole = run_operator(of(fp8_mlp), inputs, dtype);
      const Outcome parts = run_operator(of(fp8_mlp_reference), inputs, dtype);
      EXPECT_TRUE(same_bits(whole.outputs[0], parts.outputs[0]));
      for (size_t i = 0; i < inputs.size(); ++i)
        EXPECT_TRUE(same_bits(whole.gradients[i], parts.gradients[i])) << "gradient " << i;
    }
  }
}

// The 8 bits of x are kept for the backward, not x.
TEST(Fp8Linear, LetsGoOfItsInput) {
  const auto keeps_input = [](auto function) {
    const at::Tensor leaf = random_tensor({32, 48}, 19).requires_grad_(true);
    at::Tensor x = leaf * 2;
    const at::Tensor y = function(x, random_tensor({16, 48}, 20).requires_grad_(true));
    const at::Storage storage = x.storage();
    x.reset();
    return storage.use_count() > 1;
  };
  EXPECT_FALSE(keeps_input(fp8_linear));
  EXPECT_TRUE(keeps_input(lmtrain::linear));
}

}  // namespace
}  // namespace lmtrain
