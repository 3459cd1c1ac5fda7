#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
using testing::check_operator;
using testing::check_thread_independence;
using testing::Operator;
using testing::random_tensor;

constexpr double kEps = 1e-5;

// The norm alone.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return std::get<1>(add_rms_norm(x, std::nullopt, weight, eps));
}
at::Tensor rms_norm_reference(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return std::get<1>(add_rms_norm_reference(x, std::nullopt, weight, eps));
}

Operator of(at::Tensor (*function)(const at::Tensor&, const at::Tensor&, double),
            double eps = kEps) {
  return [function, eps](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{function(in[0], in[1], eps)};
  };
}

TEST(RmsNorm, EqualsItsReferenceOverShapes) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 1},     {1, 1, 16},  {3, 5, 7},
                                                    {2, 33, 64},   {7, 1, 129}, {4, 9, 31},
                                                    {1, 300, 256}, {70, 48}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(at::str(at::IntArrayRef(shapes[i])));
    check_operator(of(rms_norm), of(rms_norm_reference),
                   {random_tensor(shapes[i], i), random_tensor({shapes[i].back()}, 100 + i)});
  }
}

TEST(RmsNorm, EpsilonCountsWhereInputsAreSmall) {
  const std::vector<at::Tensor> inputs = {random_tensor({4, 24}, 1) * 1e-3, random_tensor({24}, 2)};
  check_operator(of(rms_norm, 1e-2), of(rms_norm_reference, 1e-2), inputs);
  EXPECT_GT(testing::largest_difference(rms_norm(inputs[0], inputs[1], 1e-2),
                                        rms_norm(inputs[0], inputs[1], 1e-6)),
            0.1);
}

TEST(RmsNorm, ReadsInputsThatAreNotContiguous) {
  const auto transposed = [](at::Tensor (*function)(const at::Tensor&, const at::Tensor&, double)) {
    return [function](const std::vector<at::Tensor>& in) {
      // x as a transpose, the weight as every second element, the output's gradient transposed too.
      return std::vector<at::Tensor>{
          function(in[0].transpose(0, 1), in[1].slice(0, 0, std::nullopt, 2), kEps)
              .transpose(0, 1)};
    };
  };
  // [24, 9] -> rows of 24 would be [9, 24].
  check_operator(transposed(rms_norm), transposed(rms_norm_reference),
                 {random_tensor({24, 9}, 3), random_tensor({48}, 4)});
}

TEST(RmsNorm, ReferenceHasTheGradientOfItsValue) {
  check_gradient(of(rms_norm_reference), {random_tensor({3, 5}, 5), random_tensor({5}, 6)});
}

TEST(RmsNorm, NaNStaysInItsRow) {
  at::Tensor x = random_tensor({3, 17}, 7);
  x[1][4] = std::numeric_limits<float>::quiet_NaN();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto outcome = testing::run_operator(of(rms_norm), {x, at::ones({17})}, dtype);
    const at::Tensor y = outcome.outputs[0];
    EXPECT_TRUE(y[1].isnan().all().item<bool>());
    EXPECT_FALSE(y[0].isnan().any().item<bool>());
    EXPECT_FALSE(y[2].isnan().any().item<bool>());
    EXPECT_TRUE(outcome.gradients[0][1].isnan().all().item<bool>());
    EXPECT_FALSE(outcome.gradients[0][0].isnan().any().item<bool>());
    EXPECT_TRUE(outcome.gradients[1].isnan().all().item<bool>());
  }
}

TEST(RmsNorm, BitsDoNotDependOnThreads) {
  check_thread_independence(of(rms_norm),
                            {random_tensor({3, 123, 257}, 8), random_tensor({257}, 9)});
}

TEST(RmsNorm, KeepsDoubleThroughTheReference) {
  const at::Tensor x = random_tensor({2, 3}, 10, at::kDouble);
  EXPECT_EQ(rms_norm(x, at::ones({3}, at::kDouble), kEps).scalar_type(), at::kDouble);
}

using AddFunction = std::tuple<at::Tensor, at::Tensor> (*)(const at::Tensor&,
                                                           const std::optional<at::Tensor>&,
                                                           const at::Tensor&, double);

Operator of(AddFunction function) {
  return [function](const std::vector<at::Tensor>& in) {
    const auto [h, y] = function(in[0], in[1], in[2], kEps);
    return std::vector<at::Tensor>{h, y};
  };
}

// Multiples of a quarter, whose sums bf16 holds: the oracle in double does not round them.
at::Tensor quarters(at::IntArrayRef shape, uint64_t seed) {
  return (4 * random_tensor(shape, seed)).round() / 4;
}

TEST(AddRmsNorm, EqualsItsReferenceOverShapes) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 1},  {3, 5, 7},     {2, 33, 64},
                                                    {4, 9, 31}, {1, 300, 256}, {70, 48}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(at::str(at::IntArrayRef(shapes[i])));
    check_operator(of(add_rms_norm), of(add_rms_norm_reference),
                   {quarters(shapes[i], i), quarters(shapes[i], 50 + i),
                    random_tensor({shapes[i].back()}, 100 + i)});
  }
}

TEST(AddRmsNorm, IsTheSumRoundedAndItsNorm) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = random_tensor({5, 33}, 11, dtype),
                     residual = random_tensor({5, 33}, 12, dtype);
    const at::Tensor weight = random_tensor({33}, 13, dtype);
    const auto [h, y] = add_rms_norm(x, residual, weight, kEps);
    EXPECT_TRUE(testing::same_bits(h, x + residual));
    EXPECT_TRUE(testing::same_bits(y, rms_norm(h, weight, kEps)));
  }
}

// Then h is x, and its gradient goes through the norm's backward.
TEST(AddRmsNorm, NeedsNoResidual) {
  const auto alone = [](AddFunction function) {
    return [function](const std::vector<at::Tensor>& in) {
      const auto [h, y] = function(in[0], std::nullopt, in[1], kEps);
      return std::vector<at::Tensor>{h * 1, y};
    };
  };
  check_operator(alone(add_rms_norm), alone(add_rms_norm_reference),
                 {random_tensor({4, 24}, 26), random_tensor({24}, 27)});
  const at::Tensor x = random_tensor({4, 24}, 28);
  const at::Tensor h = std::get<0>(add_rms_norm(x, std::nullopt, at::ones({24}), kEps));
  EXPECT_EQ(h.data_ptr(), x.data_ptr());
}

TEST(AddRmsNorm, AnOutputThatIsNotUsedHasNoGradient) {
  for (const size_t used : {0U, 1U}) {
    const auto only = [&](AddFunction function) {
      return [=, op = of(function)](const std::vector<at::Tensor>& in) {
        // The weight is used where h alone is, so that it has a gradient.
        return std::vector<at::Tensor>{op(in)[used] + 0 * in[2]};
      };
    };
    check_operator(
        only(add_rms_norm), only(add_rms_norm_reference),
        {random_tensor({4, 24}, 14), random_tensor({4, 24}, 15), random_tensor({24}, 16)});
  }
}

TEST(AddRmsNorm, ReadsInputsThatAreNotContiguous) {
  const auto transposed = [](AddFunction function) {
    return [function](const std::vector<at::Tensor>& in) {
      const auto [h, y] = function(in[0].t(), in[1], in[2].slice(0, 0, std::nullopt, 2), kEps);
      return std::vector<at::Tensor>{h.t(), y.t()};
    };
  };
  check_operator(transposed(add_rms_norm), transposed(add_rms_norm_reference),
                 {random_tensor({24, 9}, 17), random_tensor({9, 24}, 18), random_tensor({48}, 19)});
}

TEST(AddRmsNorm, ReferenceHasTheGradientOfItsValue) {
  check_gradient(of(add_rms_norm_reference),
                 {random_tensor({3, 5}, 20), random_tensor({3, 5}, 21), random_tensor({5}, 22)});
}

TEST(AddRmsNorm, BitsDoNotDependOnThreads) {
  check_thread_independence(of(add_rms_norm),
                            {random_tensor({3, 123, 257}, 23), random_tensor({3, 123, 257}, 24),
                             random_tensor({257}, 25)});
}

}  // namespace
}  // namespace lmtrain
