// The sum of a gradient during its backward; processes are threads of the test.
#include "distributed/gradient_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <semaphore>
#include <stdexcept>
#include <utility>

#include "device/torch_headers.h"
#include "distributed/divided_config.h"
#include "distributed/group.h"
#include "distributed/optimizer_shards.h"
#include "model/module_weights.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::layout_of;
using testing::random_tensor;

Config config_of(bool tied) {
  Config config = testing::divided_config();
  config.model.num_hidden_layers = 3;
  config.model.intermediate_size = 1400;  // a layer fills a chunk
  config.model.tie_word_embeddings = tied;
  return config;
}

// Tells a sum of all tensors, in an order of its own.
void finish_in_some_order(ChunkReducer& sum, const ParameterLayout& layout, uint64_t seed) {
  std::vector<ParameterSpec> specs = layout.parameters();
  std::shuffle(specs.begin(), specs.end(), std::mt19937_64(seed));
  for (const ParameterSpec& spec : specs) sum.gradient_ready({spec.offset, spec.numel()});
}

std::vector<DividedRange> halves(const ParameterLayout& layout) {
  std::vector<DividedRange> chunks;
  for (const ElementRange& chunk : backward_chunks(layout, 1))
    chunks.push_back(evenly_divided(chunk, 2));
  return chunks;
}

TEST(BackwardChunks, CoverTheLayoutInTheOrderOfTheBackward) {
  for (const bool tied : {true, false}) {
    const ParameterLayout layout = layout_of(config_of(tied));
    const std::vector<ElementRange> chunks = backward_chunks(layout, 1);
    // The layers one by one; the embeddings; the norms; before all an untied head.
    ASSERT_EQ(chunks.size(), tied ? 5U : 6U);
    int64_t elements = 0;
    std::vector<int64_t> begins;
    for (const ElementRange& chunk : chunks) {
      begins.push_back(chunk.first);
      elements += chunk.size;
    }
    EXPECT_EQ(elements, layout.flat_size());
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
    EXPECT_EQ(backward_chunks(layout, 2).size(), chunks.size() - 1);
    EXPECT_EQ(backward_chunks(layout, 9).size(), chunks.size() - 2);
  }
}

// Layers of less than a megabyte share a chunk.
TEST(BackwardChunks, SmallLayersShareOne) {
  Config config = config_of(true);
  config.model.intermediate_size = 700;
  EXPECT_EQ(backward_chunks(layout_of(config), 1).size(), 4U);
}

TEST(ChunkReducer, HasTheBitsOfTheSumAfterTheBackward) {
  for (const bool tied : {true, false}) {
    Config config = config_of(tied);
    const ParameterLayout layout = layout_of(config);
    for (const int count : {2, 3, 4}) {
      as_ranks(count, [&](Processes& processes) {
        OptimizerShards shards(processes, config, CommThreads(processes.extra_groups(3)));
        const auto rank = static_cast<size_t>(processes.rank());
        const at::Tensor gradient = at::empty({layout.flat_size()}), all = at::empty_like(gradient);
        ChunkReducer overlapped(shards.threads(), layout, gradient, shards.chunks(),
                                /*gathers=*/false);
        std::vector<DividedRange> even;
        for (const DividedRange& chunk : shards.chunks())
          even.push_back(evenly_divided(chunk.elements, count));
        ChunkReducer whole(shards.threads(), layout, all, even, /*gathers=*/true);
        for (uint64_t step = 0; step < 3; ++step) {
          gradient.copy_(random_tensor({layout.flat_size()}, 10 * step + rank));
          all.copy_(gradient);
          const at::Tensor expected = gradient.clone();
          for (const DividedRange& chunk : shards.chunks())
            processes.reduce_scatter(expected, chunk.ranges);
          overlapped.begin_step();
          finish_in_some_order(overlapped, layout, step + rank);
          processes.barrier();  // other exchanges go on meanwhile
          overlapped.finish();
          whole.begin_step();
          whole.gradient_ready({0, layout.flat_size()});
          whole.finish();
          for (const DividedRange& chunk : shards.chunks()) {
            const ElementRange& mine = chunk.ranges[rank];
            EXPECT_TRUE(at::equal(mine.of(gradient), mine.of(expected))) << count;
            if (mine.size == 0) continue;
            EXPECT_LT((mine.of(all) - mine.of(expected)).abs().max().item<double>(), 1e-5);
          }
          const at::Tensor first = all.clone();
          processes.broadcast(first);
          EXPECT_TRUE(at::equal(all, first));  // the same bits everywhere
        }
      });
    }
  }
}

// The chunk is sent when it is finished, not in finish(), and not before: else this would not see
// the one change and see the other.
TEST(ChunkReducer, SumsAChunkAsSoonAsItIsFinished) {
  const Config config = config_of(true);
  const ParameterLayout layout = layout_of(config);
  as_ranks(2, [&](Processes& processes) {
    const std::vector<DividedRange> chunks = halves(layout);
    CommThreads threads(processes.extra_groups(2));
    const at::Tensor gradient = at::ones({layout.flat_size()});
    ChunkReducer sum(threads, layout, gradient, chunks, /*gathers=*/true);
    sum.begin_step();
    const ElementRange first = chunks[0].elements, second = chunks[1].elements;
    first.of(gradient).fill_(2);
    sum.gradient_ready(first);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto* const values = gradient.data_ptr<float>();
    while (std::atomic_ref(const_cast<float&>(values[first.end() - 1])) != 4 ||
           std::atomic_ref(const_cast<float&>(values[first.first])) != 4) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    EXPECT_EQ(second.of(gradient).max().item<double>(), 1);  // nothing of it is sent yet
    second.of(gradient).fill_(3);
    processes.barrier();
    sum.finish();
    EXPECT_EQ(first.of(gradient).min().item<double>(), 4);
    EXPECT_EQ(second.of(gradient).min().item<double>(), 6);
    EXPECT_EQ(chunks[2].elements.of(gradient).max().item<double>(), 2);
  });
}

// A chunk that is finished waits for those before it: all processes exchange in one order.
TEST(ChunkReducer, WaitsForTheChunksBefore) {
  const Config config = config_of(true);
  const ParameterLayout layout = layout_of(config);
  struct Recorded final : RangeExchange {
    void reduce_scatter(const at::Tensor& /*flat*/,
                        const std::vector<ElementRange>& ranges) override {
      if (fails) throw std::runtime_error("the network is gone");
      firsts.push_back(ranges[0].first);
    }
    void all_gather(const at::Tensor& /*flat*/,
                    const std::vector<ElementRange>& /*ranges*/) override {}
    std::vector<int64_t> firsts;
    std::atomic<bool> fails = false;
  };
  Recorded exchange;
  const std::vector<DividedRange> chunks = halves(layout);
  CommThreads threads(std::vector<RangeExchange*>{&exchange});
  ChunkReducer sum(threads, layout, at::zeros({layout.flat_size()}), chunks, /*gathers=*/false);
  sum.begin_step();
  EXPECT_FALSE(sum.has_begun());
  for (size_t i = chunks.size(); i-- > 0;) {
    sum.gradient_ready(chunks[i].elements);
    EXPECT_TRUE(sum.has_begun());
  }
  sum.finish();
  EXPECT_FALSE(sum.has_begun());
  ASSERT_EQ(exchange.firsts.size(), chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i)
    EXPECT_EQ(exchange.firsts[i], chunks[i].elements.first);

  exchange.fails = true;
  sum.begin_step();
  EXPECT_THROW(sum.finish(), std::runtime_error);
}

// The first chunk's exchange ends only when the second chunk's has begun.
TEST(ChunkReducer, AChunkFollowsWhileTheOneBeforeIsOnItsWay) {
  const ParameterLayout layout = layout_of(config_of(true));
  struct Waiting final : RangeExchange {
    void reduce_scatter(const at::Tensor& /*flat*/,
                        const std::vector<ElementRange>& /*ranges*/) override {
      begun.release();
      if (awaited != nullptr && !std::exchange(has_waited, true))
        awaited_came = awaited->begun.try_acquire_for(std::chrono::seconds(30));
    }
    void all_gather(const at::Tensor& /*flat*/,
                    const std::vector<ElementRange>& /*ranges*/) override {}
    std::counting_semaphore<> begun{0};
    Waiting* awaited = nullptr;
    bool has_waited = false, awaited_came = false;
  };
  Waiting second, first;
  first.awaited = &second;
  CommThreads threads({&first, &second});
  ChunkReducer sum(threads, layout, at::zeros({layout.flat_size()}), halves(layout),
                   /*gathers=*/false);
  sum.begin_step();
  sum.finish();
  EXPECT_TRUE(first.awaited_came);
}

}  // namespace
}  // namespace lmtrain
