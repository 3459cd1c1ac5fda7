// The sum of a gradient during its backward; processes are threads of the test.
#include "run/shared/overlapped_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <semaphore>
#include <stdexcept>
#include <utility>

#include "device/torch_headers.h"
#include "processes/group.h"
#include "run/shared/divided_config.h"
#include "run/shared/optimizer_shards.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::layout_of;
using testing::random_tensor;

Config config_of(bool tied) {
  Config config = testing::divided_config();
  config.model.num_hidden_layers = 3;
  config.model.tie_word_embeddings = tied;
  return config;
}

// Tells a sum of all tensors, in an order of its own.
void finish_in_some_order(OverlappedSum& sum, const ParameterLayout& layout, uint64_t seed) {
  std::vector<ParameterSpec> specs = layout.parameters();
  std::shuffle(specs.begin(), specs.end(), std::mt19937_64(seed));
  for (const ParameterSpec& spec : specs) sum.finish(spec.offset, spec.numel());
}

TEST(GradientChunks, CoverTheLayoutInTheOrderOfTheBackward) {
  for (const bool tied : {true, false}) {
    const ParameterLayout layout = layout_of(config_of(tied));
    const std::vector<GradientChunk> chunks = chunks_of(layout, {}, 2, 1);
    // The layers one by one; the embeddings; the norms; before all an untied head.
    ASSERT_EQ(chunks.size(), tied ? 5U : 6U);
    int64_t elements = 0, numel = 0;
    std::vector<int64_t> begins;
    for (const GradientChunk& chunk : chunks) {
      begins.push_back(chunk.elements.first);
      elements += chunk.elements.size;
      numel += chunk.numel;
      EXPECT_EQ(chunk.ranges[0].first, chunk.elements.first);
      EXPECT_EQ(chunk.ranges[0].size + chunk.ranges[1].size, chunk.elements.size);
    }
    EXPECT_EQ(elements, layout.flat_size());
    EXPECT_EQ(numel, layout.num_parameters());
    const auto offset_of = [&](const std::string& name) {
      for (const ParameterSpec& spec : layout.parameters())
        if (spec.name == name) return spec.offset;
      return int64_t{-1};
    };
    std::vector<int64_t> expected;
    if (!tied) expected.push_back(offset_of("lm_head.weight"));
    for (const char* layer : {"2", "1", "0"})
      expected.push_back(
          offset_of(std::string("model.layers.") + layer + ".self_attn.q_proj.weight"));
    expected.push_back(0);
    expected.push_back(layout.decayed_size());
    EXPECT_EQ(begins, expected);
    // Layers share a chunk that one of them does not fill.
    const int64_t layer = expected[tied ? 0 : 1] - expected[tied ? 1 : 2];
    EXPECT_EQ(chunks_of(layout, {}, 2, layer + 1).size(), chunks.size() - 1);
  }
}

TEST(OverlappedSum, HasTheBitsOfTheSumAfterTheBackward) {
  for (const bool tied : {true, false}) {
    Config config = config_of(tied);
    const ParameterLayout layout = layout_of(config);
    for (const int count : {2, 3, 4}) {
      as_ranks(count, [&](Processes& processes) {
        const OptimizerShards shards(processes, config);
        const auto rank = static_cast<size_t>(processes.rank());
        OverlappedSum overlapped(processes.aside(3),
                                 chunks_of(layout, shards.needed_ranges(), count, 1),
                                 /*gathers=*/false);
        OverlappedSum whole(processes.aside(2), chunks_of(layout, {}, count, 1), /*gathers=*/true);
        for (uint64_t step = 0; step < 3; ++step) {
          const at::Tensor gradient = random_tensor({layout.flat_size()}, 10 * step + rank);
          const at::Tensor expected = gradient.clone(), all = gradient.clone();
          processes.sum_ranges(expected, shards.needed_ranges());
          overlapped.begin(gradient);
          finish_in_some_order(overlapped, layout, step + rank);
          processes.barrier();  // other exchanges go on meanwhile
          overlapped.wait();
          const ElementRange& needed = shards.needed_ranges()[rank];
          EXPECT_TRUE(at::equal(needed.of(gradient), needed.of(expected))) << count;

          whole.begin(all);
          whole.finish(0, layout.flat_size());
          whole.wait();
          EXPECT_LT((needed.of(all) - needed.of(expected)).abs().max().item<double>(), 1e-5);
          const at::Tensor first = all.clone();
          processes.broadcast(first);
          EXPECT_TRUE(at::equal(all, first));  // the same bits everywhere
        }
      });
    }
  }
}

// The chunk is sent when it is finished, not in wait(), and not before: else this would not see the
// one change and see the other.
TEST(OverlappedSum, SumsAChunkAsSoonAsItIsFinished) {
  const Config config = config_of(true);
  const ParameterLayout layout = layout_of(config);
  as_ranks(2, [&](Processes& processes) {
    const std::vector<GradientChunk> chunks = chunks_of(layout, {}, 2, 1);
    OverlappedSum sum(processes.aside(2), chunks, /*gathers=*/true);
    const at::Tensor gradient = at::ones({layout.flat_size()});
    sum.begin(gradient);
    const ElementRange first = chunks[0].elements, second = chunks[1].elements;
    first.of(gradient).fill_(2);
    sum.finish(first.first, first.size);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto* const values = gradient.data_ptr<float>();
    while (std::atomic_ref(const_cast<float&>(values[first.end() - 1])) != 4 ||
           std::atomic_ref(const_cast<float&>(values[first.first])) != 4) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    EXPECT_EQ(second.of(gradient).max().item<double>(), 1);  // nothing of it is sent yet
    second.of(gradient).fill_(3);
    processes.barrier();
    sum.finish_all();
    sum.wait();
    EXPECT_EQ(first.of(gradient).min().item<double>(), 4);
    EXPECT_EQ(second.of(gradient).min().item<double>(), 6);
    EXPECT_EQ(chunks[2].elements.of(gradient).max().item<double>(), 2);
  });
}

// A chunk that is finished waits for those before it: all processes exchange in one order.
TEST(OverlappedSum, WaitsForTheChunksBefore) {
  const Config config = config_of(true);
  const ParameterLayout layout = layout_of(config);
  struct Recorded final : RangeExchange {
    void sum_ranges(const at::Tensor& /*flat*/, const std::vector<ElementRange>& ranges) override {
      if (fails) throw std::runtime_error("the network is gone");
      firsts.push_back(ranges[0].first);
    }
    void gather_ranges(const at::Tensor& /*flat*/,
                       const std::vector<ElementRange>& /*ranges*/) override {}
    std::vector<int64_t> firsts;
    std::atomic<bool> fails = false;
  };
  Recorded exchange;
  const std::vector<GradientChunk> chunks = chunks_of(layout, {}, 2, 1);
  OverlappedSum sum({&exchange}, chunks, /*gathers=*/false);
  sum.begin(at::zeros({layout.flat_size()}));
  EXPECT_FALSE(sum.has_finished_any());
  for (size_t i = chunks.size(); i-- > 0;) {
    sum.finish(chunks[i].elements.first, chunks[i].elements.size);
    EXPECT_TRUE(sum.has_finished_any());
  }
  sum.wait();
  ASSERT_EQ(exchange.firsts.size(), chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i)
    EXPECT_EQ(exchange.firsts[i], chunks[i].elements.first);

  exchange.fails = true;
  sum.begin(at::zeros({layout.flat_size()}));
  sum.finish_all();
  EXPECT_THROW(sum.wait(), std::runtime_error);
}

// The first chunk's exchange ends only when the second chunk's has begun.
TEST(OverlappedSum, AChunkFollowsWhileTheOneBeforeIsOnItsWay) {
  const ParameterLayout layout = layout_of(config_of(true));
  struct Waiting final : RangeExchange {
    void sum_ranges(const at::Tensor& /*flat*/,
                    const std::vector<ElementRange>& /*ranges*/) override {
      begun.release();
      if (awaited != nullptr && !std::exchange(has_waited, true))
        awaited_came = awaited->begun.try_acquire_for(std::chrono::seconds(30));
    }
    void gather_ranges(const at::Tensor& /*flat*/,
                       const std::vector<ElementRange>& /*ranges*/) override {}
    std::counting_semaphore<> begun{0};
    Waiting* awaited = nullptr;
    bool has_waited = false, awaited_came = false;
  };
  Waiting second, first;
  first.awaited = &second;
  OverlappedSum sum({&first, &second}, chunks_of(layout, {}, 2, 1), /*gathers=*/false);
  sum.begin(at::zeros({layout.flat_size()}));
  sum.finish_all();
  sum.wait();
  EXPECT_TRUE(first.awaited_came);
}

}  // namespace
}  // namespace lmtrain
