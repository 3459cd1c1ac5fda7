#include "training/matmul_rate.h"

#include <gtest/gtest.h>

#include "device/torch_headers.h"
#include "support/operator_calls.h"

namespace lmtrain {
namespace {

// A GPU multiplies matrices of ones a tenth faster than those of a model: they cost less power.
TEST(MatmulRate, IsThatOfRandomNumbers) {
  const testing::OperatorCalls calls("aten::mm");
  EXPECT_GT(best_matmul_rate(at::kCPU, at::kFloat), 1e8);
  ASSERT_FALSE(calls.inputs().empty());
  for (const auto& inputs : calls.inputs()) {
    for (const size_t operand : {0U, 1U}) {
      const at::Tensor x = inputs.at(operand).toTensor();
      EXPECT_NEAR(x.std().item<double>(), 1, 0.1);
      EXPECT_NEAR(x.mean().item<double>(), 0, 0.1);
    }
  }
}

}  // namespace
}  // namespace lmtrain
