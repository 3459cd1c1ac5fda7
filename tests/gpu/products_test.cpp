// Products by cuBLASLt's algorithms on a GPU: each is right, the choice is kept to the bit, also in
// a captured graph. Skips itself where there is no GPU.
#include "device/captured_graph.h"
#include "gpu/gpu.h"
#include "ops/matmul.h"
#include "ops/weight_gradient.h"
#include "products/chosen_products.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using cuda::ElementType;
using cuda::MatrixProduct;
using testing::gpu;
using testing::random_tensor;
using testing::same_bits;

constexpr int64_t kM = 520, kN = 384, kK = 1032;

// Whatever a test has chosen ends with it.
struct ChoicesEnd {
  ~ChoicesEnd() { drop_chosen_products(); }
};

at::Tensor laid_out(const at::Tensor& x, bool transposed) {
  return transposed ? x.t().contiguous().t() : x;
}

TEST(GpuProducts, EveryAlgorithmOfTheHeuristicIsRight) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  ASSERT_EQ(why_no_chosen_products(*device), "");
  const ChoicesEnd end;
  const auto algorithms = library_algorithms(*device);
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const at::Tensor a = random_tensor({kM, kK}, 1, dtype) / 32,
                     b = random_tensor({kK, kN}, 2, dtype);
    const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    const ElementType type = dtype == at::kHalf ? ElementType::kHalf : ElementType::kBf16;
    for (const int way : {0, 1, 2, 3}) {
      const at::Tensor left = laid_out(a.to(*device), (way & 1) != 0);
      const at::Tensor right = laid_out(b.to(*device), (way & 2) != 0);
      for (const bool in_fp32 : {false, true}) {
        const MatrixProduct of{kN,
                               kM,
                               kK,
                               (way & 2) != 0,
                               (way & 1) != 0,
                               type,
                               in_fp32 ? ElementType::kFloat : type,
                               false};
        MatrixProduct adds = of;
        adds.adds = true;
        const auto all = algorithms->algorithms(of);
        EXPECT_FALSE(all.empty());
        for (size_t i = 0; i < all.size(); ++i) {
          SCOPED_TRACE(::testing::Message() << dtype << " way " << way << " algorithm " << i);
          use_products(*device, {{of, all[i]}});
          if (!in_fp32) {
            EXPECT_LE(testing::largest_difference(product(left, right).cpu(), exact), 1e-2);
            continue;
          }
          const at::Tensor sum = at::full({kM, kN}, NAN, at::TensorOptions(*device));
          add_product(left, right, sum, /*first=*/true);
          EXPECT_LE(testing::largest_difference(sum.cpu(), exact), 1e-5);
          if (!serves_product(*device, adds, all[i])) continue;
          use_products(*device, {{adds, all[i]}});
          add_product(left, right, sum, /*first=*/false);
          EXPECT_LE(testing::largest_difference(sum.cpu(), 2 * exact), 1e-5);
        }
      }
    }
  }
}

TEST(GpuProducts, AChoiceGivesTheSameBitsEachTimeAndInAGraph) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  ASSERT_EQ(why_no_chosen_products(*device), "");
  const ChoicesEnd end;
  const MatrixProduct of{kN, kM, kK};
  const auto algorithms = library_algorithms(*device);
  const auto best = choose_algorithm(*algorithms, of);
  ASSERT_TRUE(best);
  use_products(*device, {{of, best->algorithm}});
  const at::Tensor a = random_tensor({kM, kK}, 1, at::kBFloat16).to(*device);
  const at::Tensor b = random_tensor({kK, kN}, 2, at::kBFloat16).to(*device);
  const at::Tensor expected = product(a, b).cpu();
  EXPECT_TRUE(same_bits(product(a, b).cpu(), expected));
  if (!why_no_graphs(*device).empty()) GTEST_SKIP() << why_no_graphs(*device);
  const at::Tensor result = at::empty({kM, kN}, a.options());
  const auto recorder = graph_recorder(*device);
  const auto work = [&] { result.copy_(product(a, b)); };
  recorder->warm_up(work);
  const auto graph = recorder->capture(work);
  result.zero_();
  graph->launch();
  EXPECT_TRUE(same_bits(result.cpu(), expected));
}

}  // namespace
}  // namespace lmtrain
