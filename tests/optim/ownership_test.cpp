// Who updates which tensors, and that an update has the same bits whoever makes it.
#include "optim/ownership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/support.h"
#include "optim/rules/make_optimizer.h"
#include "optim/support.h"

namespace lmtrain {
namespace {

using testing::config_of;
using testing::random_tensor;
using testing::same_bits;

const RunClock kMiddle{.total = 100, .steps = 50};

ModelConfig wide_model() {
  ModelConfig model;
  model.hidden_size = 128;
  model.intermediate_size = 344;
  model.num_hidden_layers = 3;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  return model;
}

class OwnershipTest : public ::testing::TestWithParam<std::string> {};

TEST_P(OwnershipTest, RangesAreOfWholeTensorsAndCoverAll) {
  const OptimizerConfig config = config_of(GetParam());
  for (const ModelConfig& model : {testing::small_model(), wide_model()}) {
    const ParameterLayout layout(model, 300);
    std::set<int64_t> ends = {layout.flat_size()};
    for (const ParameterSpec& spec : layout.parameters()) ends.insert(spec.offset);
    for (const int count : {1, 2, 3, 4, 8, 64}) {
      const std::vector<int64_t> cuts = cut_tensors(layout, config, count);
      ASSERT_EQ(cuts.size(), static_cast<size_t>(count) + 1);
      EXPECT_EQ(cuts.front(), 0);
      EXPECT_EQ(cuts.back(), layout.flat_size());
      EXPECT_TRUE(std::is_sorted(cuts.begin(), cuts.end()));
      for (const int64_t cut : cuts) EXPECT_TRUE(ends.contains(cut)) << cut;
      EXPECT_EQ(cuts, cut_tensors(layout, config, count));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, OwnershipTest,
                         ::testing::Values("adamw", "lion", "ademamix", "soap", "muon", "normuon",
                                           "sgd", "rmsprop", "adam", "adopt", "mars",
                                           "schedule_free"));

// No range of a deep model has much more than its share: at most half the largest tensor.
TEST(Ownership, CostsAreEven) {
  ModelConfig model = wide_model();
  model.num_hidden_layers = 24;
  const ParameterLayout layout(model, 300);
  const double share = static_cast<double>(layout.flat_size()) / 8;
  const std::vector<int64_t> cuts = cut_tensors(layout, config_of("adamw"), 8);
  for (size_t i = 1; i < cuts.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(cuts[i] - cuts[i - 1]), share, 0.2 * share) << i;
  }
}

// A vocabulary that outweighs the layers is one range, and the others share the layers.
TEST(Ownership, ALargeTensorIsARangeOfItsOwn) {
  const ParameterLayout layout(wide_model(), 100'000);
  const std::vector<int64_t> cuts = cut_tensors(layout, config_of("adamw"), 4);
  EXPECT_EQ(cuts[1], 128 * 100'000);
  const int64_t rest = layout.flat_size() - cuts[1];
  for (size_t i = 2; i < cuts.size(); ++i) {
    EXPECT_GT(cuts[i] - cuts[i - 1], rest / 5);
    EXPECT_LT(cuts[i] - cuts[i - 1], rest / 2);
  }
}

// Muon's matrices cost their products: the range of the vocabulary takes layers too.
TEST(Ownership, TheRuleDecidesTheCosts) {
  ModelConfig model = wide_model();
  model.hidden_size = 512;
  model.intermediate_size = 1376;
  const ParameterLayout layout(model, 4000);
  EXPECT_GT(cut_tensors(layout, config_of("muon"), 2)[1],
            cut_tensors(layout, config_of("adamw"), 2)[1]);
}

TEST(Ownership, MoreRangesThanTensorsLeaveSomeEmpty) {
  const ParameterLayout layout(testing::small_model(), 37);
  const std::vector<int64_t> cuts = cut_tensors(layout, config_of("adamw"), 64);
  for (size_t i = 1; i < cuts.size(); ++i) {
    if (i <= layout.parameters().size()) {
      EXPECT_GT(cuts[i], cuts[i - 1]);
    } else {
      EXPECT_EQ(cuts[i], cuts[i - 1]);
    }
  }
}

// How many matrices a process has beside a matrix, and where a range of elements ends, must not
// change a bit: else runs of one process and of several would part.
TEST_P(OwnershipTest, AnUpdateHasTheSameBitsWhoeverOwnsIt) {
  OptimizerConfig config = config_of(GetParam());
  config.precondition_frequency = 2;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const ModelConfig& model : {testing::small_model(), wide_model()}) {
      const bool is_small = model.hidden_size < 100;
      if (!is_small && dtype != at::kFloat) continue;
      const testing::Threads scope(2);
      const ParameterLayout layout(model, 301);
      for (const int count : {2, 4}) {
        const bool separate = !trains_at_masters(config);
        Parameters divided(layout, dtype, at::kCPU, separate);
        divided.initialize(1, 0.5);
        Parameters again(layout, dtype, at::kCPU, separate);
        again.initialize(1, 0.5);
        const auto alone = make_optimizer(config, again);
        const std::vector<int64_t> cuts = cut_tensors(layout, config, count);
        std::vector<std::unique_ptr<Optimizer>> owners;
        for (size_t i = 0; i + 1 < cuts.size(); ++i) {
          owners.push_back(make_optimizer(config, divided, [=](const ParameterSpec& spec) {
            return spec.offset >= cuts[i] && spec.offset < cuts[i + 1];
          }));
        }
        for (int64_t step = 1; step <= (is_small ? 12 : 4); ++step) {
          const at::Tensor grad = random_tensor({layout.flat_size()}, static_cast<uint64_t>(step));
          alone->update({step, 0.01, 0.3, kMiddle}, grad.clone());
          for (const auto& owner : owners) owner->update({step, 0.01, 0.3, kMiddle}, grad.clone());
        }
        EXPECT_TRUE(same_bits(divided.master(), again.master())) << count;
        EXPECT_TRUE(same_bits(divided.working(), again.working())) << count;
        std::map<std::string, at::Tensor> expected;
        for (const OptimizerBuffer& buffer : alone->buffers())
          expected[buffer.name] = buffer.values;
        for (const auto& owner : owners) {
          for (const OptimizerBuffer& buffer : owner->buffers()) {
            ASSERT_TRUE(expected.contains(buffer.name)) << buffer.name;
            EXPECT_TRUE(
                same_bits(buffer.values.contiguous(), expected.at(buffer.name).contiguous()))
                << buffer.name;
            expected.erase(buffer.name);
          }
        }
        EXPECT_TRUE(expected.empty()) << expected.begin()->first;
      }
    }
  }
}

}  // namespace
}  // namespace lmtrain
