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

TEST(Swiglu, NaNStaysAtItsPlace) {
  for (const int64_t place : {3, 17 + 3}) {  // in the gate, in up
    at::Tensor x = random_tensor({2, 34}, 22);
    x[1][place] = std::numeric_limits<float>::quiet_NaN();
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

}  // namespace
}  // namespace lmtrain
