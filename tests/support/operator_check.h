// An operator against its oracle: values and gradients on the same inputs.
#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "support/tensors.h"

namespace lmtrain::testing {

// Inputs that want a gradient -> outputs.
using Operator = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

struct Outcome {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> gradients;  // of the inputs
};

// Runs `op` on copies of the inputs in `dtype` on `device` and goes back from fixed random
// gradients of its outputs.
inline Outcome run_operator(const Operator& op, const std::vector<at::Tensor>& inputs,
                            at::ScalarType dtype, const at::Device& device = at::kCPU) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(
        input.to(device, dtype, /*non_blocking=*/false, /*copy=*/true).requires_grad_(true));
  }
  Outcome outcome;
  outcome.outputs = op(leaves);
  std::vector<at::Tensor> upstream;
  for (size_t i = 0; i < outcome.outputs.size(); ++i) {
    // Rounded to bf16, so that every dtype goes back from the same numbers.
    const at::Tensor& output = outcome.outputs[i];
    upstream.push_back(output.dim() == 0
                           ? at::ones_like(output)
                           : random_tensor(output.sizes(), 900 + i, at::kBFloat16).to(output));
  }
  outcome.gradients = torch::autograd::grad(outcome.outputs, leaves, upstream);
  return outcome;
}

inline constexpr double kBf16Tolerance = 1.6e-2;

inline void expect_near(const Outcome& actual, const Outcome& expected, double tolerance) {
  ASSERT_EQ(actual.outputs.size(), expected.outputs.size());
  for (size_t i = 0; i < actual.outputs.size(); ++i) {
    EXPECT_LE(largest_elementwise_difference(actual.outputs[i], expected.outputs[i]), tolerance)
        << "output " << i;
  }
  for (size_t i = 0; i < actual.gradients.size(); ++i) {
    EXPECT_LE(largest_elementwise_difference(actual.gradients[i], expected.gradients[i]), tolerance)
        << "gradient of input " << i;
  }
}

// The kernel, and the composition in the same dtype, against the composition in double: fp32 and
// bf16. The inputs are rounded to bf16 first, so that all compute on the same numbers.
inline void check_operator(const Operator& op, const Operator& reference,
                           const std::vector<at::Tensor>& inputs,
                           double composition_bf16_tolerance = kBf16Tolerance) {
  std::vector<at::Tensor> rounded;
  for (const at::Tensor& input : inputs) rounded.push_back(input.to(at::kBFloat16));
  const Outcome oracle = run_operator(reference, rounded, at::kDouble);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Outcome kernel = run_operator(op, rounded, dtype);
    const Outcome composition = run_operator(reference, rounded, dtype);
    for (size_t i = 0; i < kernel.outputs.size(); ++i) {
      EXPECT_EQ(kernel.outputs[i].scalar_type(), composition.outputs[i].scalar_type());
    }
    for (const at::Tensor& gradient : kernel.gradients) EXPECT_EQ(gradient.scalar_type(), dtype);
    SCOPED_TRACE(at::toString(dtype));
    const bool is_bf16 = dtype == at::kBFloat16;
    {
      SCOPED_TRACE("kernel");
      expect_near(kernel, oracle, is_bf16 ? kBf16Tolerance : 1e-5);
    }
    {
      SCOPED_TRACE("composition");
      expect_near(composition, oracle, is_bf16 ? composition_bf16_tolerance : 1e-5);
    }
  }
}

// Central differences in double against autograd, element by element.
inline void check_gradient(const Operator& reference, const std::vector<at::Tensor>& inputs) {
  const Outcome analytic = run_operator(reference, inputs, at::kDouble);
  const auto value_at = [&](const std::vector<at::Tensor>& point) {
    const std::vector<at::Tensor> outputs = reference(point);
    double sum = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const at::Tensor weight =
          outputs[i].dim() == 0
              ? at::ones_like(outputs[i])
              : random_tensor(outputs[i].sizes(), 900 + i, at::kBFloat16).to(outputs[i]);
      sum += (outputs[i] * weight).sum().item<double>();
    }
    return sum;
  };
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<at::Tensor> point;
    for (const at::Tensor& input : inputs) point.push_back(input.to(at::kDouble).clone());
    const at::Tensor numeric = at::empty_like(point[i]);
    for (int64_t j = 0; j < numeric.numel(); ++j) {
      double& element = point[i].data_ptr<double>()[j];
      const double at = element;
      element = at + kStep;
      const double above = value_at(point);
      element = at - kStep;
      const double below = value_at(point);
      element = at;
      numeric.data_ptr<double>()[j] = (above - below) / (2 * kStep);
    }
    EXPECT_LE(largest_elementwise_difference(analytic.gradients[i], numeric), 1e-7)
        << "input " << i;
  }
}

// The kernel's bits with one thread and with two, both dtypes; inputs must be large enough to
// share.
inline void check_thread_independence(const Operator& op, const std::vector<at::Tensor>& inputs,
                                      const std::vector<at::ScalarType>& dtypes = {at::kFloat,
                                                                                   at::kBFloat16}) {
  for (const at::ScalarType dtype : dtypes) {
    std::vector<Outcome> outcomes;
    for (const int threads : {1, 2, 3}) {
      const Threads scope(threads);
      outcomes.push_back(run_operator(op, inputs, dtype));
    }
    for (const size_t other : {1U, 2U}) {
      for (size_t i = 0; i < outcomes[0].outputs.size(); ++i) {
        EXPECT_TRUE(same_bits(outcomes[0].outputs[i], outcomes[other].outputs[i]))
            << "output " << i;
      }
      for (size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_TRUE(same_bits(outcomes[0].gradients[i], outcomes[other].gradients[i]))
            << "gradient of input " << i;
      }
    }
  }
}

}  // namespace lmtrain::testing
