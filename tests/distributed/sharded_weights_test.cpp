// Weights and gradients divided over processes, which are threads of the test.
#include "distributed/sharded_weights.h"

#include <ATen/ops/count_nonzero.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "device/releasable_memory.h"
#include "device/torch_headers.h"
#include "distributed/divided_config.h"
#include "distributed/group.h"
#include "support/host_pages.h"
#include "support/tensors.h"
#include "training/engine.h"
#include "training/step.h"

namespace lmtrain {
namespace {

using testing::copy_own;
using testing::random_tensor;

Config sharded_config(bool tied) {
  Config config = testing::divided_config();
  config.model.tie_word_embeddings = tied;
  config.model.activation_checkpointing = true;
  config.parallel.shard = ParallelShard::kParameters;
  return config;
}

Batch batch_of_rows(int64_t rows) {
  Batch batch;
  batch.rows = batch.batch_rows = rows;
  batch.length = testing::kTinyLength;
  batch.inputs = testing::random_ids(rows * batch.length, 1);
  batch.targets = testing::random_ids(rows * batch.length, 2);
  batch.num_targets = rows * batch.length;
  return batch;
}

bool own_are_equal(const OptimizerShards& shards, size_t rank, const at::Tensor& a,
                   const at::Tensor& b) {
  return std::all_of(shards.chunks().begin(), shards.chunks().end(),
                     [&](const DividedRange& chunk) {
                       return at::equal(chunk.ranges[rank].of(a), chunk.ranges[rank].of(b));
                     });
}

// Where weights and gradient lie.
enum class Memory {
  kReleasable,  // as on a CPU
  kSlots,       // as on a GPU
};

std::shared_ptr<PageMapper> pages_of(Memory memory) {
  return memory == Memory::kSlots ? std::make_shared<testing::HostPages>() : nullptr;
}

ElementsFinished hand_over(GradientReducer& reducer) {
  return [&](int64_t first, int64_t size) { reducer.gradient_ready({first, size}); };
}

TEST(ModuleRanges, CoverTheMatricesOnce) {
  for (const bool tied : {false, true}) {
    const ParameterLayout layout = testing::layout_of(sharded_config(tied));
    const std::vector<ElementRange> modules = module_ranges(layout);
    EXPECT_EQ(modules.size(), tied ? 3U : 4U);
    std::map<int64_t, int64_t> sizes;
    for (const ElementRange& module : modules) sizes[module.first] = module.size;
    int64_t end = 0;
    for (const auto& [first, size] : sizes) {
      EXPECT_EQ(first, end);
      end += size;
    }
    EXPECT_EQ(end, layout.decayed_size());
  }
}

// Neighbours in the order of a step, in which one is used while the other is gathered.
TEST(ModuleSlots, NeighboursShareNoMemory) {
  for (const bool tied : {false, true}) {
    for (const int64_t layers : {1, 2, 3, 4}) {
      Config config = sharded_config(tied);
      config.model.num_hidden_layers = layers;
      const Slots slots = module_slots(testing::layout_of(config), {});
      ASSERT_EQ(slots.used.size(), slots.slot_of.size());
      const size_t last = slots.slot_of.size() - 1;
      for (size_t i = 0; i < last; ++i) EXPECT_NE(slots.slot_of[i], slots.slot_of[i + 1]);
      EXPECT_TRUE(!tied || slots.slot_of[0] != slots.slot_of[last]);
      // Not one slot for each module.
      EXPECT_LE(*std::max_element(slots.slot_of.begin(), slots.slot_of.end()), tied ? 2U : 1U);
    }
  }
}

// What is released is zero, but for the edges that share a page with others.
TEST(ShardedWeights, AModuleIsThereFromAwaitToRelease) {
  const Config config = sharded_config(/*tied=*/false);
  const ParameterLayout layout = testing::layout_of(config);
  const at::Tensor all = random_tensor({layout.flat_size()}, 3);
  as_ranks(2, [&](Processes& processes) {
    const OptimizerShards shards(processes, config, CommThreads(processes));
    ASSERT_TRUE(shards.divides_weights());
    const at::Tensor flat = releasable_zeros(layout.flat_size(), at::kFloat);
    const auto rank = static_cast<size_t>(processes.rank());
    copy_own(shards, rank, all, flat);
    ShardedWeights weights(processes, shards, layout, flat, {});
    const std::vector<ElementRange> modules = module_ranges(layout);
    for (size_t i = 0; i < modules.size(); ++i) {
      const ElementRange& range = modules[i];
      weights.start(i);
      weights.await();
      EXPECT_TRUE(at::equal(range.of(flat), range.of(all)));
      weights.release(i);
      EXPECT_TRUE(own_are_equal(shards, rank, flat, all));
      constexpr int64_t kPage = 1024;  // elements
      const int64_t there = at::count_nonzero(range.of(flat)).item<int64_t>();
      EXPECT_LE(there, shards.divided(range).ranges[rank].size + 4 * kPage);
    }
  });
}

// In slots a module takes the memory of one that was released, and nobody else's.
TEST(ShardedWeights, AModuleInASlotIsThereFromAwaitToTheNextOne) {
  for (const bool tied : {false, true}) {
    Config config = sharded_config(tied);
    config.model.num_hidden_layers = 8;
    const ParameterLayout layout = testing::layout_of(config);
    const at::Tensor all = random_tensor({layout.flat_size()}, 3);
    as_ranks(2, [&](Processes& processes) {
      const OptimizerShards shards(processes, config, CommThreads(processes));
      const auto mapper = std::make_shared<testing::HostPages>();
      SlotMemory memory(mapper);
      const at::Tensor flat = memory.zeros(layout.flat_size(), at::kFloat,
                                           module_slots(layout, *shards.held_gradient()));
      EXPECT_LT(mapper->bytes_in_use(), 0.9 * static_cast<double>(flat.nbytes()));
      const auto rank = static_cast<size_t>(processes.rank());
      copy_own(shards, rank, all, flat);
      ShardedWeights weights(processes, shards, layout, flat, {});
      const std::vector<ElementRange> modules = module_ranges(layout);
      std::vector<size_t> order;  // of a step
      for (size_t i = 0; i < modules.size(); ++i) order.push_back(i);
      if (tied) order.push_back(0);
      for (size_t i = modules.size() - (tied ? 1 : 2); i > 0; --i) order.push_back(i);
      const auto is_there = [&](size_t module) {
        const ElementRange& range = modules[module];
        return at::equal(range.of(flat), range.of(all));
      };
      weights.start(order[0]);
      for (size_t i = 0; i < order.size(); ++i) {
        weights.await();
        if (i + 1 < order.size()) weights.start(order[i + 1]);
        EXPECT_TRUE(is_there(order[i])) << order[i];
        if (i + 1 < order.size()) {
          // The next one has come, and this one is still used.
          weights.await();
          EXPECT_TRUE(is_there(order[i])) << order[i];
          EXPECT_TRUE(is_there(order[i + 1])) << order[i + 1];
          weights.start(order[i + 1]);
        }
        weights.release(order[i]);
        EXPECT_TRUE(own_are_equal(shards, rank, flat, all));
      }
    });
  }
}

// A model's work is only queued when it calls. So an exchange begins behind what was queued until
// then, and not behind what came later.
TEST(ShardedWeights, AnExchangeBeginsBehindTheWorkThatWasQueued) {
  struct Recorded final : SideStream {
    Mark mark() override { return std::make_shared<int>(queued); }
    void after(const Mark& mark, const std::function<void()>& work) override {
      may_begin.wait(false);
      followed.push_back(*std::static_pointer_cast<int>(mark));
      work();
    }
    int queued = 0;  // works of the model
    std::atomic<bool> may_begin = false;
    std::vector<int> followed;
  };
  const Config config = sharded_config(/*tied=*/false);
  const ParameterLayout layout = testing::layout_of(config);
  as_ranks(2, [&](Processes& processes) {
    const OptimizerShards shards(processes, config, CommThreads(processes));
    const auto side = std::make_shared<Recorded>();
    const auto zeros = [&] { return releasable_zeros(layout.flat_size(), at::kFloat); };
    ShardedWeights weights(processes, shards, layout, zeros(), zeros(), side);
    const std::vector<ElementRange> modules = module_ranges(layout);
    weights.start(0);
    side->queued = 1;
    weights.start(1);
    side->queued = 2;
    side->may_begin = true;
    side->may_begin.notify_one();
    weights.await();
    weights.await();
    weights.begin_step();
    weights.gradient_ready(modules[1]);
    side->queued = 3;
    weights.gradient_ready(modules[0]);
    weights.finish();
    EXPECT_EQ(side->followed, (std::vector<int>{0, 1, 2, 3}));
  });
}

// The gradient of a step, summed in the ranges of its owners, has the bits of a whole sum; and not
// where the modules of one process do not come.
TEST(ShardedWeights, TheGradientOfAStepHasTheBitsOfWholeWeights) {
  struct Case {
    bool tied;
    ModelArchitecture type = ModelArchitecture::kLlama;
    bool has_gaps = false;  // between the tensors of a layer
  };
  for (const Case& test : {Case{false}, Case{true}, Case{true, ModelArchitecture::kQwen2},
                           Case{.tied = false, .has_gaps = true}}) {
    Config config = sharded_config(test.tied);
    config.model.model_type = test.type;
    // Each layer is a chunk, of which both processes own tensors, and two layers share memory.
    config.model.num_hidden_layers = 3;
    config.model.hidden_size = test.has_gaps ? 40 : 64;
    config.model.intermediate_size = test.has_gaps ? 2401 : 1500;
    config.sequence.max_length = testing::kTinyLength;
    config.model.initializer_range = 0.3;
    config.compile = CompileMode::kEager;
    const ParameterLayout layout = testing::layout_of(config);
    const Batch batch = batch_of_rows(5);
    const Precision fp32{at::kFloat};
    Engine whole(config, fp32, at::kCPU, {});
    whole.initialize(7);
    const at::Tensor masters = whole.parameters().master().clone();
    const std::vector<RowRange> halves = {{0, 3}, {3, 5}};
    at::Tensor expected = at::zeros_like(masters);
    std::vector<double> losses;
    for (const RowRange& rows : halves) {
      const at::Tensor part = at::zeros_like(masters);
      losses.push_back(accumulate_rows(whole.model(), batch, rows, batch.length, part));
      expected += part;
    }
    for (const auto& [control, memory] :
         {std::pair(false, Memory::kReleasable), std::pair(false, Memory::kSlots),
          std::pair(true, Memory::kReleasable)}) {
      as_ranks(2, [&](Processes& processes) {
        const OptimizerShards shards(processes, config, CommThreads(processes));
        const auto rank = static_cast<size_t>(processes.rank());
        Engine engine(config, fp32, at::kCPU,
                      {.held = shards.held_gradient(), .pages = pages_of(memory)});
        if (!control || rank == 0) copy_own(shards, rank, masters, engine.parameters().master());
        const ElementRange norms = shards.norms();
        norms.of(engine.parameters().master()).copy_(norms.of(masters));
        ShardedWeights weights(processes, shards, layout, engine.parameters().working(),
                               engine.gradient());
        engine.model().read_by_modules(weights);
        for (int again = 0; again < 2; ++again) {
          weights.begin_step();
          const std::vector<double> loss = accumulate_by_modules(
              engine.model(), batch, {halves[rank]}, 1, engine.gradient(), 1, hand_over(weights));
          weights.finish();
          EXPECT_EQ(loss[0] == losses[rank], !control);
          EXPECT_EQ(own_are_equal(shards, rank, engine.gradient(), expected), !control);
        }
      });
    }
  }
}

// It takes part to the end, so that the other is not left waiting.
TEST(ShardedWeights, AFailureLeavesNoOtherWaiting) {
  Config config = sharded_config(/*tied=*/false);
  config.sequence.max_length = testing::kTinyLength;
  config.compile = CompileMode::kEager;
  Batch batch = batch_of_rows(2);
  Batch too_long = batch;
  too_long.rows = too_long.batch_rows = 1;
  too_long.length *= 2;
  as_ranks(2, [&](Processes& processes) {
    const OptimizerShards shards(processes, config, CommThreads(processes));
    Engine engine(config, {at::kFloat}, at::kCPU, {.held = shards.held_gradient()});
    ShardedWeights weights(processes, shards, engine.layout(), engine.parameters().working(),
                           engine.gradient());
    engine.model().read_by_modules(weights);
    const auto step = [&](const Batch& rows) {
      weights.begin_step();
      accumulate_by_modules(engine.model(), rows, {{0, rows.rows}}, 1, engine.gradient(), 1,
                            hand_over(weights));
    };
    if (processes.is_first()) {
      EXPECT_THROW(step(too_long), Error);
    } else {
      step(batch);
    }
    EXPECT_TRUE(weights.has_begun());
    weights.finish();
    EXPECT_FALSE(weights.has_begun());
    step(batch);
    weights.finish();
  });
}

}  // namespace
}  // namespace lmtrain
