// Every operator at shapes drawn at random, in fp32 and bf16 on a GPU against its composition in
// double on the CPU. Every test skips itself on a machine without a GPU.
#include <random>

#include "gpu.h"
#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::gpu;
using testing::Operator;
using testing::Outcome;
using testing::random_integers;
using testing::random_tensor;
using testing::run_operator;
using Tensors = std::vector<at::Tensor>;

constexpr uint64_t kNumShapes = 24;

Outcome on_host(Outcome outcome) {
  for (at::Tensor& x : outcome.outputs) x = x.cpu();
  for (at::Tensor& x : outcome.gradients) x = x.cpu();
  return outcome;
}

// Inputs are rounded to bf16 first, so that all compute on the same numbers.
void expect_the_oracles(const at::Device& device, const Operator& op, const Operator& reference,
                        const Tensors& inputs) {
  Tensors rounded;
  for (const at::Tensor& input : inputs) rounded.push_back(input.to(at::kBFloat16));
  const Outcome oracle = run_operator(reference, rounded, at::kDouble);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(at::toString(dtype));
    const double tolerance = dtype == at::kFloat ? 1e-5 : testing::kBf16Tolerance;
    expect_near(on_host(run_operator(op, rounded, dtype, device)), oracle, tolerance);
  }
}

// Calls test(draw, seed) for each shape; draw(least, most) gives numbers, small ones as often as
// large ones.
template <class Test>
void at_random_shapes(const Test& test) {
  for (uint64_t seed = 0; seed < kNumShapes; ++seed) {
    SCOPED_TRACE(at::str("seed ", seed));
    std::mt19937_64 random(seed);
    const auto draw = [&](int64_t least, int64_t most) {
      const double share = static_cast<double>(random() >> 11) * 0x1p-53;
      const double ratio = static_cast<double>(most + 1) / static_cast<double>(least);
      return std::min(most,
                      static_cast<int64_t>(static_cast<double>(least) * std::pow(ratio, share)));
    };
    test(draw, seed);
  }
}

TEST(GpuRandomShapes, AddRmsNorm) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  at_random_shapes([&](const auto& draw, uint64_t seed) {
    const std::vector<int64_t> shape = {1, draw(1, 3000), draw(1, 5000)};
    // Multiples of a quarter, whose sums bf16 holds: the oracle in double does not round them.
    const auto quarters = [&](uint64_t which) {
      return (4 * random_tensor(shape, which)).round() / 4;
    };
    // The weight's gradient sums over the rows: y is scaled, so that this sum is of order 1.
    const double scale = 1 / std::sqrt(static_cast<double>(shape[1]));
    const auto of = [=](auto function) {
      return [=](const Tensors& in) {
        const auto [h, y] = function(in[0], in[2], in[1], 1e-5);
        return Tensors{h * 1, y * scale};
      };
    };
    const at::Tensor weight = random_tensor({shape[2]}, 100 + seed);
    expect_the_oracles(*device, of(add_rms_norm), of(add_rms_norm_reference),
                       {quarters(seed), weight, quarters(50 + seed)});
  });
}

TEST(GpuRandomShapes, QkvRope) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  at_random_shapes([&](const auto& draw, uint64_t seed) {
    const int64_t batch = draw(1, 4), length = draw(1, 600), kv_heads = draw(1, 4);
    const int64_t heads = kv_heads * draw(1, 4), size = 2 * draw(1, 64);
    const at::Tensor angle = 3 * random_tensor({length, size / 2}, 77);
    const auto of = [&](auto function) {
      return [=](const Tensors& in) {
        const auto [q, k, v] = function(in[0], angle.cos().to(in[0].device()),
                                        angle.sin().to(in[0].device()), heads, kv_heads);
        return Tensors{q, k, v};
      };
    };
    expect_the_oracles(*device, of(qkv_rope), of(qkv_rope_reference),
                       {random_tensor({batch, length, (heads + 2 * kv_heads) * size}, seed)});
  });
}

TEST(GpuRandomShapes, Swiglu) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  at_random_shapes([&](const auto& draw, uint64_t seed) {
    const auto of = [](auto function) {
      return [function](const Tensors& in) { return Tensors{function(in[0])}; };
    };
    expect_the_oracles(*device, of(swiglu), of(swiglu_reference),
                       {3 * random_tensor({draw(1, 3), draw(1, 1000), 2 * draw(1, 3000)}, seed)});
  });
}

TEST(GpuRandomShapes, CrossEntropy) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  at_random_shapes([&](const auto& draw, uint64_t seed) {
    const int64_t rows = draw(1, 300), vocab = draw(2, 60000);
    at::Tensor targets = random_integers(0, vocab, {rows}, seed);
    if (rows > 2) targets[rows / 2] = -100;
    const auto number = [](const at::Tensor& beside) {
      return at::scalar_tensor(0.5, beside.options().dtype(at::kDouble).requires_grad(false));
    };
    const Operator op = [&](const Tensors& in) {
      return Tensors{cross_entropy(in[0].clone(), targets.to(in[0].device()), number(in[0]), 0.0)};
    };
    const Operator reference = [&](const Tensors& in) {
      return Tensors{cross_entropy_reference(in[0], targets, number(in[0]), 0.0)};
    };
    expect_the_oracles(*device, op, reference, {3 * random_tensor({rows, vocab}, seed)});
  });
}

TEST(GpuRandomShapes, Embedding) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  at_random_shapes([&](const auto& draw, uint64_t seed) {
    const int64_t count = draw(1, 5000), vocab = draw(1, 40000), dim = draw(1, 300);
    const at::Tensor ids = random_integers(0, vocab, {count}, seed);
    const Operator op = [&](const Tensors& in) {
      return Tensors{lmtrain::embedding(ids.to(in[0].device()), in[0])};
    };
    // An id that is drawn n times sums n gradients.
    const double often = static_cast<double>(count) / static_cast<double>(vocab) + 1;
    expect_the_oracles(*device, op, op, {random_tensor({vocab, dim}, seed) / std::sqrt(often)});
  });
}

}  // namespace
}  // namespace lmtrain
