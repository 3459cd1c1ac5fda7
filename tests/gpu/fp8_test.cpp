// fp8 on a GPU that has it, against its oracle on the CPU: casts bit for bit, products within the
// digits that a sum may lose. Every test skips itself elsewhere.
#include "ops/fp8.h"

#include <cmath>

#include "gpu.h"
#include "model/llama.h"
#include "ops/operators.h"
#include "support/models.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::gpu;
using testing::Outcome;
using testing::random_integers;
using testing::random_tensor;
using testing::run_operator;
using testing::same_bits;

#define SKIP_WITHOUT_FP8(device)                                                  \
  SKIP_WITHOUT_GPU(device);                                                       \
  if (const std::string reason = testing::why_no_fp8(*(device)); !reason.empty()) \
  GTEST_SKIP() << reason

TEST(GpuFp8, CastsToTheBitsOfTheOracle) {
  const auto device = gpu();
  SKIP_WITHOUT_FP8(device);
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{1, 16},   {16, 48},    {128, 64},
                                                           {131, 80}, {1000, 768}, {4096, 2048}};
  for (const auto& [rows, columns] : shapes) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const at::ScalarType format : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
        SCOPED_TRACE(at::str(rows, " x ", columns, ' ', dtype, ' ', format));
        const at::Tensor x = random_tensor({rows, columns}, 1).mul(1e-3).to(dtype);
        const at::Tensor there = x.to(*device);
        const at::Tensor amax = fp8_amax(there);
        EXPECT_EQ(amax.max().item<float>(), x.to(at::kFloat).abs().max().item<float>());
        const Fp8Copies expected = fp8_cast(x, fp8_amax(x), format, Fp8Layout::kBoth);
        const Fp8Copies both = fp8_cast(there, amax, format, Fp8Layout::kBoth);
        EXPECT_TRUE(same_bits(both.inverse_scale.cpu(), expected.inverse_scale));
        EXPECT_TRUE(same_bits(both.rows_MN.cpu(), expected.rows_MN));
        EXPECT_TRUE(same_bits(both.columns_NM.cpu(), expected.columns_NM));
        const Fp8Copies by_columns = fp8_cast(there, amax, format, Fp8Layout::kColumns);
        EXPECT_TRUE(same_bits(by_columns.columns_NM.cpu(), expected.columns_NM));
      }
    }
  }
}

TEST(GpuFp8, ReadsWhatIsNotAligned) {
  const auto device = gpu();
  SKIP_WITHOUT_FP8(device);
  const at::Tensor flat = random_tensor({131 * 80 + 3}, 2, at::kBFloat16).to(*device);
  for (const int64_t shift : {0, 1, 3}) {
    const at::Tensor x = flat.narrow(0, shift, 131 * 80).view({131, 80});
    const at::Tensor aligned = x.clone();
    const auto cast = [](const at::Tensor& from) {
      return fp8_cast(from, fp8_amax(from), at::kFloat8_e4m3fn, Fp8Layout::kBoth);
    };
    EXPECT_TRUE(same_bits(cast(x).rows_MN.cpu(), cast(aligned).rows_MN.cpu()));
    EXPECT_TRUE(same_bits(cast(x).columns_NM.cpu(), cast(aligned).columns_NM.cpu()));
  }
}

Outcome run_linear(const at::Tensor& x, const at::Tensor& weight, const at::Device& device) {
  return run_operator(
      [](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{fp8_linear(in[0], in[1])};
      },
      {x, weight}, at::kBFloat16, device);
}

TEST(GpuFp8, LinearIsTheOracles) {
  const auto device = gpu();
  SKIP_WITHOUT_FP8(device);
  // Positions that are multiples of 16 and that are not.
  const std::vector<std::array<int64_t, 4>> shapes = {
      {1, 16, 16, 16}, {1, 1, 32, 48}, {3, 7, 128, 352}, {2, 500, 768, 2304}, {8, 512, 2048, 768}};
  for (const auto& [batch, length, in, out] : shapes) {
    SCOPED_TRACE(at::str(batch, " x ", length, " x ", in, " to ", out));
    const at::Tensor x = random_tensor({batch, length, in}, 3, at::kBFloat16);
    const at::Tensor weight =
        (random_tensor({out, in}, 4) / std::sqrt(static_cast<double>(in))).to(at::kBFloat16);
    const Outcome expected = run_linear(x, weight, at::kCPU);
    const Outcome actual = run_linear(x, weight, *device);
    const Outcome again = run_linear(x, weight, *device);
    const auto check = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& oracle) {
      EXPECT_TRUE(a.is_cuda());
      EXPECT_TRUE(same_bits(a.cpu(), b.cpu())) << "twice";
      EXPECT_LE(testing::largest_difference(a.cpu(), oracle), testing::kBf16Tolerance);
    };
    check(actual.outputs[0], again.outputs[0], expected.outputs[0]);
    for (const size_t i : {0U, 1U})
      check(actual.gradients[i], again.gradients[i], expected.gradients[i]);
  }
}

// The amax that SwiGLU's kernels find is that of a pass of its own.
TEST(GpuFp8, MlpHasTheBitsOfItsParts) {
  const auto device = gpu();
  SKIP_WITHOUT_FP8(device);
  const auto of = [](auto function) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{function(in[0], in[1], in[2])};
    };
  };
  for (const int64_t length : {1, 500}) {
    const std::vector<at::Tensor> inputs = {random_tensor({2, length, 768}, 7),
                                            random_tensor({4096, 768}, 8) / 28,
                                            random_tensor({768, 2048}, 9) / 45};
    const Outcome whole = run_operator(of(fp8_mlp), inputs, at::kBFloat16, *device);
    const Outcome parts = run_operator(of(fp8_mlp_reference), inputs, at::kBFloat16, *device);
    EXPECT_TRUE(same_bits(whole.outputs[0].cpu(), parts.outputs[0].cpu()));
    for (size_t i = 0; i < inputs.size(); ++i)
      EXPECT_TRUE(same_bits(whole.gradients[i].cpu(), parts.gradients[i].cpu())) << i;
  }
}

TEST(GpuFp8, WhatIsNotFiniteIsNotHidden) {
  const auto device = gpu();
  SKIP_WITHOUT_FP8(device);
  const at::Tensor weight = random_tensor({48, 64}, 5, at::kBFloat16);
  for (const double bad : {HUGE_VAL, static_cast<double>(NAN)}) {
    at::Tensor x = random_tensor({1, 200, 64}, 6, at::kBFloat16);
    EXPECT_TRUE(run_linear(x, weight, *device).outputs[0].isfinite().all().item<bool>());
    x[0][137][9] = bad;
    const Outcome outcome = run_linear(x, weight, *device);
    EXPECT_FALSE(outcome.outputs[0].isfinite().any().item<bool>());
    EXPECT_FALSE(outcome.gradients[1].isfinite().any().item<bool>());
    EXPECT_TRUE(outcome.gradients[0].isfinite().all().item<bool>());
  }
}

struct ModelOutcome {
  double loss = 0;
  at::Tensor gradient;
};

ModelOutcome run_model(const at::Device& device, bool fp8) {
  const ModelConfig config = testing::two_layer_model();
  Parameters parameters(ParameterLayout(config, 503), at::kBFloat16, device);
  parameters.initialize(1, 0.08);
  Llama model(config, parameters, 100, CompileMode::kScript, /*z_loss=*/0, fp8);
  const MicroBatch micro = micro_batch(random_integers(0, 503, {3, 100}, 1),
                                       random_integers(-1, 503, {3, 100}, 2), 1.0 / 300);
  ModelOutcome outcome;
  const at::Tensor gradient = at::zeros_like(parameters.master());
  outcome.loss = model.loss_and_gradient(micro.to(device), gradient, true).item<double>();
  outcome.gradient = gradient.cpu();
  return outcome;
}

// The GPU's gradient is as far from bf16's as the oracle's is, and no farther from the oracle's
// than two draws of that error are apart (LlamaInFp8.ARoundingOfTheWeightsDrawsTheErrorAnew). A
// wrong scale, layout or product adds to the first distance.
TEST(GpuFp8, AModelIsTheOracles) {
  const auto device = gpu();
  SKIP_WITHOUT_FP8(device);
  const ModelOutcome bf16 = run_model(at::kCPU, false), cpu = run_model(at::kCPU, true),
                     cuda = run_model(*device, true);
  EXPECT_NEAR(cuda.loss, cpu.loss, 2e-2);
  const auto distance = [](const ModelOutcome& a, const ModelOutcome& b) {
    return (a.gradient - b.gradient).norm().item<double>();
  };
  const double error = distance(cpu, bf16), cuda_error = distance(cuda, bf16);
  EXPECT_NEAR(cuda_error, error, 0.1 * error);
  EXPECT_LT(distance(cuda, cpu), std::hypot(error, cuda_error));
  EXPECT_NE(run_model(*device, false).loss, cuda.loss) << "is it fp8?";
}

}  // namespace
}  // namespace lmtrain
