// Every operator's CUDA kernel against its ATen composition in double on the CPU, forward and
// backward, and against itself bit for bit. Every test skips itself on a machine without a GPU.
#include "ops/operators.h"

#include "device/dispatch.h"
#include "gpu.h"
#include "ops/weight_gradient.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::expect_near;
using testing::gpu;
using testing::Operator;
using testing::Outcome;
using testing::random_integers;
using testing::random_tensor;
using testing::run_operator;
using testing::same_bits;

Outcome on_host(Outcome outcome) {
  for (at::Tensor& x : outcome.outputs) x = x.cpu();
  for (at::Tensor& x : outcome.gradients) x = x.cpu();
  return outcome;
}

constexpr auto kDtypes = {at::kFloat, at::kBFloat16, at::kHalf};

double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-5 : testing::kBf16Tolerance;
}

// Inputs are rounded to bf16 first, so that all compute on the same numbers. Captured tensors must
// go to the device of the inputs inside the operators.
void check_on_gpu(const at::Device& device, const Operator& op, const Operator& reference,
                  const std::vector<at::Tensor>& inputs,
                  std::initializer_list<at::ScalarType> dtypes = kDtypes) {
  std::vector<at::Tensor> rounded;
  for (const at::Tensor& input : inputs) rounded.push_back(input.to(at::kBFloat16));
  const Outcome oracle = run_operator(reference, rounded, at::kDouble);
  for (const at::ScalarType dtype : dtypes) {
    SCOPED_TRACE(at::toString(dtype));
    const Outcome kernel = run_operator(op, rounded, dtype, device);
    const Outcome again = run_operator(op, rounded, dtype, device);
    for (const at::Tensor& output : kernel.outputs) EXPECT_TRUE(output.is_cuda());
    for (size_t i = 0; i < kernel.gradients.size(); ++i) {
      EXPECT_EQ(kernel.gradients[i].scalar_type(), dtype);
      EXPECT_TRUE(same_bits(kernel.gradients[i].cpu(), again.gradients[i].cpu()))
          << "gradient " << i;
    }
    expect_near(on_host(kernel), oracle, tolerance_of(dtype));
  }
}

TEST(GpuOperators, AreKernelsOfOurs) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  if (!kHasCudaKernels) GTEST_SKIP() << "built without the CUDA kernels (LMTRAIN_CUDA)";
  for (const at::ScalarType dtype : kDtypes) {
    EXPECT_TRUE(has_cuda_kernel(at::empty({1}, at::TensorOptions(*device).dtype(dtype))));
  }
  EXPECT_FALSE(has_cuda_kernel(at::empty({1}, at::TensorOptions(*device).dtype(at::kDouble))));
}

// Sums of products of 16-bit numbers that are never rounded to 16 bits.
TEST(GpuOperators, AddProductAddsInFp32) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  constexpr int64_t kPositions = 1000, kIn = 256, kOut = 192;
  for (const at::ScalarType dtype : kDtypes) {
    SCOPED_TRACE(at::toString(dtype));
    const at::Tensor x = random_tensor({kPositions, kIn}, 1, dtype);
    const at::Tensor dy = random_tensor({kPositions, kOut}, 2, dtype) / 32;
    const at::Tensor product = dy.t().to(at::kDouble).matmul(x.to(at::kDouble));
    const at::Tensor sum = at::full({kOut, kIn}, NAN, at::TensorOptions(*device));
    add_product(dy.to(*device).t(), x.to(*device), sum, /*first=*/true);
    EXPECT_LT(testing::largest_difference(sum.cpu(), product), 1e-5);
    const at::Tensor once = sum.clone();
    add_product(dy.to(*device).t(), x.to(*device), sum, /*first=*/false);
    EXPECT_LT(testing::largest_difference(sum.cpu(), 2 * product), 1e-5);
    add_product(dy.to(*device).t(), x.to(*device), sum, /*first=*/true);
    EXPECT_TRUE(same_bits(sum.cpu(), once.cpu()));
  }
}

TEST(GpuOperators, QkNorm) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const auto of = [](auto function) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{function(in[0], in[1], in[2], 6, 2, 1e-5)};
    };
  };
  for (const int64_t size : {6, 64, 128}) {
    SCOPED_TRACE(size);
    check_on_gpu(
        *device, of(qk_norm), of(qk_norm_reference),
        {random_tensor({3, 37, 10 * size}, 1), random_tensor({size}, 2), random_tensor({size}, 3)});
  }
}

TEST(GpuOperators, AddBias) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const auto of = [](auto function) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{function(in[0], in[1])};
    };
  };
  check_on_gpu(*device, of(add_bias), of(add_bias_reference),
               {random_tensor({3, 37, 96}, 1), random_tensor({96}, 2)});
}

TEST(GpuOperators, AddRmsNorm) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  // Of x and a weight, or of both and a residual.
  const auto of = [](auto function) {
    return [function](const std::vector<at::Tensor>& in) {
      std::optional<at::Tensor> residual;
      if (in.size() == 3) residual = in[2];
      const auto [h, y] = function(in[0], residual, in[1], 1e-5);
      return std::vector<at::Tensor>{h * 1, y};
    };
  };
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 1},     {3, 5, 7},    {2, 1, 129},
                                                    {4, 300, 64},  {2, 70, 768}, {3, 2, 4096},
                                                    {2, 2, 12288}, {2, 2, 12297}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(at::str(at::IntArrayRef(shapes[i])));
    const at::Tensor weight = random_tensor({shapes[i].back()}, 100 + i);
    // Multiples of a quarter, whose sums bf16 holds: the oracle in double does not round them.
    const auto quarters = [&](uint64_t seed) {
      return (4 * random_tensor(shapes[i], seed)).round() / 4;
    };
    check_on_gpu(*device, of(add_rms_norm), of(add_rms_norm_reference), {quarters(i), weight});
    check_on_gpu(*device, of(add_rms_norm), of(add_rms_norm_reference),
                 {quarters(i), weight, quarters(50 + i)});
  }
}

struct RopeCase {
  int64_t batch, length, heads, kv_heads, size;
  bool angles_for_each_position;

  at::Tensor angles() const {
    const int64_t count = angles_for_each_position ? batch * length : length;
    return 3 * random_tensor({count, size / 2}, 77);
  }
  at::Tensor qkv(uint64_t seed) const {
    return random_tensor({batch, length, (heads + 2 * kv_heads) * size}, seed);
  }
};

std::vector<RopeCase> rope_cases() {
  std::vector<RopeCase> cases;
  for (const bool each : {false, true}) {
    for (const RopeCase& one : std::vector<RopeCase>{{1, 1, 1, 1, 2, each},
                                                     {3, 7, 4, 2, 6, each},
                                                     {2, 33, 8, 1, 10, each},
                                                     {5, 1, 6, 3, 34, each},
                                                     {2, 50, 12, 12, 64, each},
                                                     {2, 50, 9, 3, 128, each}})
      cases.push_back(one);
  }
  return cases;
}

TEST(GpuOperators, QkvRope) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const std::vector<RopeCase> cases = rope_cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const RopeCase& test = cases[i];
    const auto of = [&, angle = test.angles()](auto function) {
      return [=](const std::vector<at::Tensor>& in) {
        const auto [q, k, v] = function(in[0], angle.cos().to(in[0].device()),
                                        angle.sin().to(in[0].device()), test.heads, test.kv_heads);
        return std::vector<at::Tensor>{q, k, v};
      };
    };
    check_on_gpu(*device, of(qkv_rope), of(qkv_rope_reference), {test.qkv(i)});
  }
}

// With the library's attention after it, which sums in the working precision, and in an order that
// is not fixed; not for the sanitizer, which judges our kernels alone.
TEST(GpuAttention, OfWholeRowsWithRope) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const std::vector<RopeCase> cases = rope_cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const RopeCase& test = cases[i];
    const auto attend = [&, angle = test.angles()](auto function) {
      return [=](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{function(in[0], angle.cos().to(in[0].device()),
                                                angle.sin().to(in[0].device()), test.heads,
                                                test.kv_heads, std::nullopt)};
      };
    };
    const std::vector<at::Tensor> rounded = {(test.qkv(i) / 2).to(at::kBFloat16)};
    const Outcome oracle = run_operator(attend(rope_attention_reference), rounded, at::kDouble);
    for (const at::ScalarType dtype : kDtypes) {
      SCOPED_TRACE(at::toString(dtype));
      expect_near(on_host(run_operator(attend(rope_attention), rounded, dtype, *device)), oracle,
                  dtype == at::kFloat ? 1e-4 : 5e-2);
    }
  }
}

// That heads lie in one tensor must not cost them the faster library.
TEST(GpuAttention, OfHeadsInOneTensorIsTheSameLibrarys) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  for (const auto& [heads, kv_heads, size] :
       std::vector<std::array<int64_t, 3>>{{12, 12, 64}, {32, 4, 64}, {16, 4, 128}}) {
    const auto alone = [&, size = size](int64_t count) {
      return at::empty({4, 1024, count, size}, at::TensorOptions(*device).dtype(at::kBFloat16))
          .requires_grad_(true)
          .transpose(1, 2);
    };
    const at::Tensor packed = at::empty({4, 1024, heads + 2 * kv_heads, size},
                                        at::TensorOptions(*device).dtype(at::kBFloat16))
                                  .requires_grad_(true)
                                  .transpose(1, 2);
    const auto parts = packed.split_with_sizes({heads, kv_heads, kv_heads}, 1);
    const auto choice = [&, grouped = heads != kv_heads](const at::Tensor& q, const at::Tensor& k,
                                                         const at::Tensor& v) {
      return at::_fused_sdp_choice(q, k, v, {}, 0.0, /*is_causal=*/true, std::nullopt, grouped);
    };
    EXPECT_EQ(choice(parts[0], parts[1], parts[2]),
              choice(alone(heads), alone(kv_heads), alone(kv_heads)))
        << heads << " heads of " << size;
  }
}

TEST(GpuOperators, Swiglu) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const auto of = [](auto function) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{function(in[0])};
    };
  };
  const std::vector<std::vector<int64_t>> shapes = {
      {1, 1, 2}, {3, 5, 14}, {2, 1, 258}, {2, 300, 352}, {3, 7, 4128}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(i);
    check_on_gpu(*device, of(swiglu), of(swiglu_reference), {3 * random_tensor(shapes[i], i)});
  }
}

TEST(GpuOperators, SwigluLinearHasTheSameBitsWhereItKeepsItsValue) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const std::vector<at::Tensor> inputs = {random_tensor({1, 600, 352}, 1),
                                          random_tensor({64, 176}, 2)};
  const auto op = [](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{swiglu_linear(in[0], in[1])};
  };
  for (const at::ScalarType dtype : kDtypes) {
    const Outcome again = run_operator(op, inputs, dtype, *device);
    keep_swiglu_value(true);
    const Outcome kept = run_operator(op, inputs, dtype, *device);
    keep_swiglu_value(false);
    EXPECT_TRUE(same_bits(kept.outputs[0].cpu(), again.outputs[0].cpu()));
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(same_bits(kept.gradients[i].cpu(), again.gradients[i].cpu())) << i;
  }
}

TEST(GpuOperators, SwigluLinear) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const auto of = [](auto function) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{function(in[0], in[1])};
    };
  };
  // Positions, F, D.
  const std::vector<std::array<int64_t, 3>> shapes = {{1, 1, 1}, {15, 7, 5}, {600, 176, 64}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(i);
    const auto [positions, dim, hidden] = shapes[i];
    check_on_gpu(*device, of(swiglu_linear), of(swiglu_linear_reference),
                 {random_tensor({1, positions, 2 * dim}, i) /
                      std::sqrt(std::sqrt(static_cast<double>(positions))),
                  random_tensor({hidden, dim}, i + 10) / std::sqrt(static_cast<double>(dim))});
  }
}

// In fp64, where `beside` is.
at::Tensor number(double value, const at::Tensor& beside) {
  return at::scalar_tensor(value, beside.options().dtype(at::kDouble).requires_grad(false));
}

TEST(GpuOperators, CrossEntropy) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{1, 1},    {1, 2},     {33, 131},
                                                           {9, 1024}, {5, 32003}, {3, 128256}};
  for (const auto& [rows, vocab] : shapes) {
    for (const double weight : {1.0, 2.5}) {  // of the loss, so that its gradient is not 1
      SCOPED_TRACE(at::str(rows, " x ", vocab, ", weight ", weight));
      at::Tensor targets = random_integers(0, vocab, {rows}, 1);
      if (rows > 1) targets[rows / 2] = -100;
      const Operator op = [=, weight = weight](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{
            cross_entropy(in[0].clone(), targets.to(in[0].device()), number(0.5, in[0]), 0.0) *
            weight};
      };
      const Operator reference = [=, weight = weight](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{
            cross_entropy_reference(in[0], targets, number(0.5, in[0]), 0.0) * weight};
      };
      check_on_gpu(*device, op, reference, {3 * random_tensor({rows, vocab}, 2)});
    }
  }
}

TEST(GpuOperators, CrossEntropyWithZLoss) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const at::Tensor targets = random_integers(0, 67, {9}, 1);
  const at::Tensor logits = random_tensor({9, 67}, 2, at::kBFloat16).to(at::kFloat);
  const auto gradient_on = [&](const at::Device& where) {
    const at::Tensor leaf = logits.to(where, at::kFloat, false, true).requires_grad_(true);
    const at::Tensor loss = cross_entropy(leaf.clone(), targets.to(where), number(0.5, leaf), 1e-2);
    return torch::autograd::grad({loss}, {leaf})[0].cpu();
  };
  EXPECT_LT(testing::largest_difference(gradient_on(*device), gradient_on(at::kCPU)), 1e-5);
}

// Chunks add the gradient of the weight in fp32, and write that of x in place.
TEST(GpuOperators, LinearCrossEntropyInChunks) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  constexpr int64_t kPositions = 50, kHidden = 48, kVocab = 131;
  const at::Tensor targets = random_integers(-1, kVocab, {kPositions}, 1);
  const auto of = [&](auto function) {
    return [=](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{
          function(in[0], in[1], targets.to(in[0].device()), number(0.14, in[0]))};
    };
  };
  const auto reference = of([](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& to,
                               const at::Tensor& scale) {
    return linear_cross_entropy_reference(x, weight, to, scale, 0.0);
  });
  for (const int64_t chunk : {kPositions, int64_t{16}, int64_t{1}}) {
    SCOPED_TRACE(chunk);
    const auto in_chunks = of([chunk](const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& to, const at::Tensor& scale) {
      return linear_cross_entropy(x, weight, to, scale, 0.0, chunk);
    });
    check_on_gpu(
        *device, in_chunks, reference,
        {random_tensor({kPositions, kHidden}, 2), random_tensor({kVocab, kHidden}, 3) / 7});
  }
}

// Where a target is no id at all the loss must not look like one.
TEST(GpuOperators, CrossEntropyOfATargetOutsideTheVocabularyIsNaN) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  if (!kHasCudaKernels) GTEST_SKIP() << "ATen stops the device instead";
  const at::Tensor logits = random_tensor({3, 7}, 1).to(*device);
  const at::Tensor targets = at::tensor({1, 7, 2}, at::kLong).to(*device);
  EXPECT_TRUE(cross_entropy(logits, targets, number(1.0, logits), 0.0).isnan().item<bool>());
}

TEST(GpuOperators, Embedding) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> cases = {
      {1, 5, 3}, {77, 11, 6}, {5000, 3, 37}, {3000, 32003, 64}};
  for (const auto& [count, vocab, dim] : cases) {
    SCOPED_TRACE(at::str(count, " ids of ", vocab, ", width ", dim));
    const at::Tensor ids = random_integers(0, vocab, {count}, 1);
    const Operator op = [=](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{lmtrain::embedding(ids.to(in[0].device()), in[0])};
    };
    check_on_gpu(*device, op, op, {random_tensor({vocab, dim}, 2)});
  }
}

TEST(GpuAttention, InsideSegments) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  constexpr int64_t kBatch = 2, kLength = 150;
  const at::Tensor segments = at::tensor({0, 1, 40, 150, 151, 299, 300}, at::kInt);
  for (const auto& [heads, kv_heads, size] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{4, 4, 64}, {6, 2, 32}, {3, 1, 20}}) {
    SCOPED_TRACE(at::str(heads, " heads of ", size));
    const auto of = [&](auto function) {
      return [=](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{function(in[0].transpose(1, 2), in[1].transpose(1, 2),
                                                in[2].transpose(1, 2),
                                                segments.to(in[0].device()))};
      };
    };
    const auto random_heads = [&](int64_t count, uint64_t seed) {
      return random_tensor({kBatch, kLength, count, size}, seed);
    };
    const std::vector<at::Tensor> inputs = {random_heads(heads, 1), random_heads(kv_heads, 2),
                                            random_heads(kv_heads, 3)};
    std::vector<at::Tensor> rounded;
    for (const at::Tensor& input : inputs) rounded.push_back(input.to(at::kBFloat16));
    const Outcome oracle = run_operator(of(attention_reference), rounded, at::kDouble);
    for (const at::ScalarType dtype : kDtypes) {
      SCOPED_TRACE(at::toString(dtype));
      // libtorch's kernels sum the gradients of keys and values in the working precision, and in
      // an order that is not fixed.
      expect_near(on_host(run_operator(of(attention), rounded, dtype, *device)), oracle,
                  dtype == at::kFloat ? 1e-4 : 5e-2);
    }
  }
}

}  // namespace
}  // namespace lmtrain
