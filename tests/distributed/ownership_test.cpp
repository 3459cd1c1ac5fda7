// Who updates which tensors, and that an update has the same bits whoever makes it.
#include "distributed/ownership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/support.h"
#include "optim/make_optimizer.h"
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

using Cuts = std::vector<int64_t>;

// Returns the elements of each owner.
std::vector<double> shares_of(const std::vector<Cuts>& chunks) {
  std::vector<double> shares(chunks.front().size() - 1);
  for (const Cuts& cuts : chunks)
    for (size_t i = 0; i < shares.size(); ++i)
      shares[i] += static_cast<double>(cuts[i + 1] - cuts[i]);
  return shares;
}

TEST_P(OwnershipTest, RangesAreOfWholeTensorsAndCoverAll) {
  const OptimizerConfig config = config_of(GetParam());
  for (const ModelConfig& model : {testing::small_model(), wide_model()}) {
    const ParameterLayout layout(model, 300);
    std::set<int64_t> ends = {layout.flat_size()};
    for (const ParameterSpec& spec : layout.parameters()) ends.insert(spec.offset);
    for (const int count : {1, 2, 3, 4, 8, 64}) {
      const std::vector<Cuts> chunks = cut_chunks(layout, config, count);
      std::map<int64_t, int64_t> covered;  // the ends of the chunks by where they begin
      for (const Cuts& cuts : chunks) {
        ASSERT_EQ(cuts.size(), static_cast<size_t>(count) + 1);
        EXPECT_TRUE(std::is_sorted(cuts.begin(), cuts.end()));
        for (const int64_t cut : cuts) EXPECT_TRUE(ends.contains(cut)) << cut;
        covered[cuts.front()] = cuts.back();
      }
      int64_t end = 0;
      for (const auto& [first, last] : covered) {
        EXPECT_EQ(first, end);
        end = last;
      }
      EXPECT_EQ(end, layout.flat_size());
      EXPECT_EQ(chunks, cut_chunks(layout, config, count));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, OwnershipTest,
                         ::testing::Values("adamw", "lion", "ademamix", "soap", "muon", "normuon",
                                           "sgd", "rmsprop", "adam", "adopt", "mars"));

// A deep model of some megabytes a layer, without and with a head of its own.
ParameterLayout deep_layout(bool tied) {
  ModelConfig model = wide_model();
  model.hidden_size = 512;
  model.intermediate_size = 1376;
  model.num_hidden_layers = 24;
  model.tie_word_embeddings = tied;
  return ParameterLayout(model, 4000);
}

TEST(Ownership, SharesOfADeepModelAreEven) {
  for (const bool tied : {true, false}) {
    const ParameterLayout layout = deep_layout(tied);
    for (const int count : {2, 3, 4, 8}) {
      const double even = static_cast<double>(layout.flat_size()) / count;
      for (const double share : shares_of(cut_chunks(layout, config_of("adamw"), count)))
        EXPECT_NEAR(share, even, 0.08 * even) << count;
    }
  }
}

// Else the chunks of the gradient would go to one process each, over a link in one direction: the
// largest parts of all chunks would be as much as everything, and are one share where they are
// even.
TEST(Ownership, OwnersShareTheLayersOfEachChunk) {
  const ParameterLayout layout = deep_layout(true);
  for (const int count : {2, 3, 4, 8}) {
    const std::vector<Cuts> chunks = cut_chunks(layout, config_of("adamw"), count);
    // The last two are the embeddings and the norms.
    ASSERT_EQ(chunks.size(), count == 8 ? 14U : 26U);
    double largest = 0, all = 0;
    for (size_t i = 0; i + 2 < chunks.size(); ++i) {
      const std::vector<double> shares = shares_of({chunks[i]});
      largest += *std::max_element(shares.begin(), shares.end());
      all += std::accumulate(shares.begin(), shares.end(), 0.0);
    }
    EXPECT_LT(largest, 1.5 * all / count) << count;
  }
}

// A vocabulary that outweighs the layers is one owner's, and the others share the layers.
TEST(Ownership, ALargeTensorIsAShareOfItsOwn) {
  const ParameterLayout layout(wide_model(), 100'000);
  std::vector<double> shares = shares_of(cut_chunks(layout, config_of("adamw"), 4));
  std::sort(shares.begin(), shares.end());
  EXPECT_EQ(shares.back(), 128 * 100'000);
  const double rest = static_cast<double>(layout.flat_size()) - shares.back();
  EXPECT_GT(shares[0], rest / 5);
  EXPECT_LT(shares[2], rest / 2);
}

// Muon's matrices cost their products: the owner of the vocabulary takes layers too.
TEST(Ownership, TheRuleDecidesTheCosts) {
  ModelConfig model = wide_model();
  model.hidden_size = 512;
  model.intermediate_size = 1376;
  const ParameterLayout layout(model, 20'000);
  const auto most = [&](const char* rule) {
    const std::vector<double> shares = shares_of(cut_chunks(layout, config_of(rule), 2));
    return std::max(shares[0], shares[1]);
  };
  EXPECT_GT(most("muon"), most("adamw"));
}

TEST(Ownership, MoreOwnersThanTensorsLeaveSomeWithoutAny) {
  const ParameterLayout layout(testing::small_model(), 37);
  const std::vector<double> shares = shares_of(cut_chunks(layout, config_of("adamw"), 64));
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0.0),
            static_cast<double>(layout.flat_size()));
  EXPECT_GT(std::count(shares.begin(), shares.end(), 0.0), 0);
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
        Parameters divided(layout, dtype, at::kCPU);
        divided.initialize(1, 0.5);
        Parameters again(layout, dtype, at::kCPU);
        again.initialize(1, 0.5);
        const auto alone = make_optimizer(config, again);
        const std::vector<Cuts> chunks = cut_chunks(layout, config, count);
        std::vector<std::unique_ptr<Optimizer>> owners;
        for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
          owners.push_back(make_optimizer(config, divided, [=](const ParameterSpec& spec) {
            return std::any_of(chunks.begin(), chunks.end(), [&](const Cuts& cuts) {
              return spec.offset >= cuts[i] && spec.offset < cuts[i + 1];
            });
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
