#include "kernels/cpu/gemm.h"
#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_gradient;
using testing::check_operator;
using testing::check_thread_independence;
using testing::Operator;
using testing::random_tensor;

Operator of(at::Tensor (*function)(const at::Tensor&)) {
  return [function](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{function(in[0])};
  };
}

TEST(Swiglu, EqualsItsReferenceOverShapes) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 2}, {1, 1, 34},   {3, 5, 14},
                                                    {66, 62},  {2, 33, 128}, {1, 200, 352}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(at::str(at::IntArrayRef(shapes[i])));
    check_operator(of(swiglu), of(swiglu_reference), {3 * random_tensor(shapes[i], i)});
  }
}

TEST(Swiglu, ReadsInputsThatAreNotContiguous) {
  const auto transposed = [](at::Tensor (*function)(const at::Tensor&)) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{function(in[0].transpose(0, 1)).transpose(0, 1)};
    };
  };
  check_operator(transposed(swiglu), transposed(swiglu_reference), {random_tensor({26, 9}, 20)});
}

TEST(Swiglu, SaturatesWithoutOverflow) {
  // Gates from -1e4 to 1e4: silu is 0 on one side and the identity on the other.
  const at::Tensor gate =
      at::tensor({-1e4, -100.0, -88.5, -87.0, -20.0, 0.0, 20.0, 87.0, 100.0, 1e4});
  const at::Tensor up = at::full({10}, -2.0);
  check_operator(of(swiglu), of(swiglu_reference), {at::cat({gate, up}).unsqueeze(0)});
}

TEST(Swiglu, ReferenceHasTheGradientOfItsValue) {
  check_gradient(of(swiglu_reference), {random_tensor({3, 8}, 21)});
}

TEST(Swiglu, NaNStaysInItsColumn) {
  for (const int64_t column : {3, 17 + 3}) {  // in the gate, in up
    at::Tensor x = random_tensor({2, 34}, 22);
    x[1][column] = std::numeric_limits<float>::quiet_NaN();
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const auto outcome = testing::run_operator(of(swiglu), {x}, dtype);
      EXPECT_TRUE(outcome.outputs[0][1][3].isnan().item<bool>());
      EXPECT_EQ(outcome.outputs[0].isnan().sum().item<int64_t>(), 1);
      EXPECT_TRUE(outcome.gradients[0][1][3].isnan().item<bool>());
      EXPECT_FALSE(outcome.gradients[0][0].isnan().any().item<bool>());
    }
  }
}

TEST(Swiglu, BitsDoNotDependOnThreads) {
  check_thread_independence(of(swiglu), {random_tensor({3, 123, 514}, 24)});
}

using Function = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

Operator of(Function function) {
  return [function](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{function(in[0], in[1])};
  };
}

at::Tensor one_after_the_other(const at::Tensor& gate_up, const at::Tensor& weight) {
  return lmtrain::linear(swiglu(gate_up), weight);
}

// Of sizes that make results as large as one.
std::vector<at::Tensor> swiglu_linear_inputs(int64_t positions, int64_t dim, int64_t hidden) {
  return {random_tensor({1, positions, 2 * dim}, 30) /
              std::sqrt(std::sqrt(static_cast<double>(positions))),
          random_tensor({hidden, dim}, 31) / std::sqrt(static_cast<double>(dim))};
}

// Positions, F, D: one of each; too few positions or columns for our product; rows and columns that
// fill no tile; more terms than are summed at a time, or packed.
const std::vector<std::array<int64_t, 3>> kSwigluLinearShapes = {
    {1, 1, 1},      {5, 40, 32},     {40, 24, 8},      {47, 35, 33},    {100, 704, 64},
    {130, 90, 700}, {149, 2100, 70}, {120, 600, 4096}, {120, 4100, 600}};

TEST(SwigluLinear, EqualsItsReferenceOverShapes) {
  for (const auto& [positions, dim, hidden] : kSwigluLinearShapes) {
    SCOPED_TRACE(::testing::Message() << positions << ", " << dim << ", " << hidden);
    check_operator(of(swiglu_linear), of(swiglu_linear_reference),
                   swiglu_linear_inputs(positions, dim, hidden));
  }
}

TEST(SwigluLinear, HasTheBitsOfSwigluAndThenLinear) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto& [positions, dim, hidden] : kSwigluLinearShapes) {
      SCOPED_TRACE(::testing::Message() << positions << ", " << dim << ", " << hidden);
      const auto inputs = swiglu_linear_inputs(positions, dim, hidden);
      const auto fused = testing::run_operator(of(swiglu_linear), inputs, dtype);
      const auto apart = testing::run_operator(of(one_after_the_other), inputs, dtype);
      EXPECT_TRUE(testing::same_bits(fused.outputs[0], apart.outputs[0]));
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(testing::same_bits(fused.gradients[i], apart.gradients[i]));
      }
    }
  }
}

// Says for a scope that the value is kept.
class KeepsValue {
 public:
  KeepsValue() { keep_swiglu_value(true); }
  ~KeepsValue() { keep_swiglu_value(false); }
  KeepsValue(const KeepsValue&) = delete;
  KeepsValue& operator=(const KeepsValue&) = delete;
};

TEST(SwigluLinear, HasTheSameBitsWhereItKeepsItsValue) {
  EXPECT_FALSE(keeps_swiglu_value());
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto& [positions, dim, hidden] : kSwigluLinearShapes) {
      SCOPED_TRACE(::testing::Message() << positions << ", " << dim << ", " << hidden);
      const auto inputs = swiglu_linear_inputs(positions, dim, hidden);
      const auto again = testing::run_operator(of(swiglu_linear), inputs, dtype);
      const KeepsValue scope;
      const auto kept = testing::run_operator(of(swiglu_linear), inputs, dtype);
      EXPECT_TRUE(testing::same_bits(kept.outputs[0], again.outputs[0]));
      for (size_t i = 0; i < 2; ++i)
        EXPECT_TRUE(testing::same_bits(kept.gradients[i], again.gradients[i]));
    }
  }
}

// With gate and up changed between forward and backward, the weight's gradient shows what it is of.
TEST(SwigluLinear, TheGradientOfTheWeightIsThatOfTheKeptValue) {
  const auto inputs = swiglu_linear_inputs(5, 40, 32);
  const auto weight_gradient = [&](bool changes) {
    const at::Tensor gate_up = inputs[0].clone();
    const at::Tensor weight = inputs[1].clone().requires_grad_(true);
    const at::Tensor y = swiglu_linear(gate_up, weight);
    if (changes) gate_up.variable_data().zero_();  // autograd does not see it
    return torch::autograd::grad({y.sum()}, {weight})[0];
  };
  const at::Tensor plain = weight_gradient(/*changes=*/false);
  EXPECT_TRUE((weight_gradient(/*changes=*/true) == 0).all().item<bool>());
  const KeepsValue scope;
  EXPECT_TRUE(testing::same_bits(weight_gradient(/*changes=*/true), plain));
}

TEST(SwigluLinear, ReadsInputsThatAreNotContiguous) {
  const auto transposed = [](Function function) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{
          function(in[0].transpose(0, 1), in[1].t()).transpose(0, 1).contiguous()};
    };
  };
  check_operator(transposed(swiglu_linear), transposed(swiglu_linear_reference),
                 {random_tensor({60, 2, 30}, 32) / 4, random_tensor({15, 20}, 33) / 4});
}

TEST(SwigluLinear, TakesNoPositions) {
  const auto outcome = testing::run_operator(
      of(swiglu_linear), {at::zeros({0, 64}), random_tensor({40, 32}, 34)}, at::kFloat);
  EXPECT_EQ(outcome.outputs[0].sizes(), at::IntArrayRef({0, 40}));
  EXPECT_EQ(outcome.gradients[0].sizes(), at::IntArrayRef({0, 64}));
  EXPECT_TRUE((outcome.gradients[1] == 0).all().item<bool>());
}

TEST(SwigluLinear, ReferenceHasTheGradientOfItsValue) {
  check_gradient(of(swiglu_linear_reference), swiglu_linear_inputs(3, 4, 5));
}

TEST(SwigluLinear, BitsDoNotDependOnThreads) {
  // A library's sums may be cut by threads.
  std::vector<at::ScalarType> dtypes;
  if (fastest_cpu_gemm<float>() != nullptr) dtypes.push_back(at::kFloat);
  if (fastest_cpu_gemm<Bf16>() != nullptr) dtypes.push_back(at::kBFloat16);
  check_thread_independence(of(swiglu_linear), swiglu_linear_inputs(369, 130, 70), dtypes);
}

}  // namespace
}  // namespace lmtrain
