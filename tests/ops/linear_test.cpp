#include "kernels/cpu/gemm.h"
#include "ops/operators.h"
#include "support/operator_check.h"

namespace lmtrain {
namespace {

using testing::check_operator;
using testing::Operator;
using testing::random_tensor;

using Function = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

Operator of(Function function) {
  return [function](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{function(in[0], in[1])};
  };
}

at::Tensor aten(const at::Tensor& x, const at::Tensor& weight) { return at::linear(x, weight); }

// Sums of `size` products of standard normals, brought to the size of one.
at::Tensor weight_of(int64_t out, int64_t in, uint64_t seed) {
  return random_tensor({out, in}, seed) / std::sqrt(static_cast<double>(in));
}

TEST(Linear, EqualsAtenOverShapes) {
  // Wide and tall weights, odd sizes, one position, one column; more terms, rows and columns than
  // are taken at a time.
  const std::vector<std::array<int64_t, 4>> shapes = {
      {1, 1, 1, 1},      {1, 1, 16, 33},     {2, 7, 31, 5}, {3, 6, 64, 200},    {1, 40, 130, 64},
      {4, 100, 800, 70}, {1, 500, 40, 4200}, {2, 16, 1, 1}, {1, 16, 17000, 128}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(i);
    const auto [batch, length, in, out] = shapes[i];
    check_operator(
        of(lmtrain::linear), of(aten),
        {random_tensor({batch, length, in}, i) / std::sqrt(static_cast<double>(batch * length)),
         weight_of(out, in, 100 + i)});
  }
}

TEST(Linear, ReadsInputsThatAreNotContiguous) {
  const auto transposed = [](Function function) {
    return [function](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{
          function(in[0].transpose(0, 1), in[1].t()).transpose(0, 1).contiguous()};
    };
  };
  check_operator(transposed(lmtrain::linear), transposed(aten),
                 {random_tensor({6, 3, 24}, 1) / 4, weight_of(24, 40, 2)});
}

TEST(Linear, NaNStaysInItsPosition) {
  at::Tensor x = random_tensor({1, 40, 32}, 3);
  x[0][20][7] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor y = lmtrain::linear(x, weight_of(48, 32, 4));
  EXPECT_TRUE(y[0][20].isnan().all().item<bool>());
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), 48);
}

TEST(Linear, BitsAreThoseOfAnyNumberOfThreads) {
  const at::Tensor x = random_tensor({4, 100, 96}, 5), weight = weight_of(200, 96, 6);
  const int before = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    // A library's sums may be cut by threads.
    const bool ours = dtype == at::kFloat ? fastest_cpu_gemm<float>() != nullptr
                                          : fastest_cpu_gemm<Bf16>() != nullptr;
    if (!ours) continue;
    at::set_num_threads(1);
    const auto alone = testing::run_operator(of(lmtrain::linear), {x, weight}, dtype);
    for (const int threads : {2, 3}) {
      at::set_num_threads(threads);
      const auto shared = testing::run_operator(of(lmtrain::linear), {x, weight}, dtype);
      EXPECT_TRUE(testing::same_bits(alone.outputs[0], shared.outputs[0]));
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(testing::same_bits(alone.gradients[i], shared.gradients[i]));
      }
    }
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace lmtrain
