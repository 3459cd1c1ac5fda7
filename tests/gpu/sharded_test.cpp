// Weights and gradient divided over two processes on one GPU, which are threads of the test.
#include <gtest/gtest.h>

#include "device/device_memory.h"
#include "device/dispatch.h"
#include "device/side_stream.h"
#include "device/slotted_memory.h"
#include "distributed/divided_config.h"
#include "distributed/group.h"
#include "distributed/sharded_weights.h"
#include "gpu.h"
#include "support/tensors.h"
#include "training/engine.h"
#include "training/step.h"

namespace lmtrain {
namespace {

using testing::gpu;

#define SKIP_WITHOUT_PAGES(device) \
  SKIP_WITHOUT_GPU(device);        \
  if (!cuda_kernels_serve(*(device))) GTEST_SKIP() << "no kernels of ours for this GPU"

TEST(GpuSharded, RangesOfASlotHaveTheSameMemory) {
  const auto device = gpu();
  SKIP_WITHOUT_PAGES(device);
  const auto mapper = page_mapper(*device);
  const int64_t page = mapper->page_bytes() / 4;  // elements
  EXPECT_EQ(mapper->page_bytes(), kGpuPageBytes) << "plans say so";
  const uint64_t before = slotted_bytes();
  {
    SlotMemory memory(mapper);
    const at::Tensor flat = memory.zeros(
        9 * page, at::kFloat, {{{3 * page, 5}}, {{0, 4 * page}, {4 * page, 4 * page}}, {0, 0}});
    // Pages 3 and 8 of its own, and four of the slot.
    EXPECT_EQ(slotted_bytes() - before, static_cast<uint64_t>(6 * mapper->page_bytes()));
    EXPECT_GE(peak_memory(*device), slotted_bytes());
    const auto part = [&](int64_t first) { return flat.narrow(0, first * page, page); };
    part(3).fill_(3);
    part(0).fill_(1);
    EXPECT_TRUE(at::equal(part(4), part(0)));
    flat.narrow(0, 4 * page, 4 * page).fill_(2);  // over several pages at once
    EXPECT_EQ(part(2).min().item<double>(), 2);
    EXPECT_EQ(part(3).max().item<double>(), 3);
    const at::Tensor host = flat.cpu();
    EXPECT_EQ(host.narrow(0, 4 * page, 4 * page).min().item<double>(), 2);
    EXPECT_EQ(host.narrow(0, 8 * page, page).abs().max().item<double>(), 0);
    flat.narrow(0, 0, 3 * page).copy_(host.narrow(0, 8 * page, page).repeat({3}));
    EXPECT_EQ(part(4).abs().max().item<double>(), 0);
  }
  EXPECT_EQ(slotted_bytes(), before);
}

// A kernel reads a slot for some milliseconds, and the next values come meanwhile.
TEST(GpuSharded, AnExchangeWaitsForTheKernelsBefore) {
  const auto device = gpu();
  SKIP_WITHOUT_GPU(device);
  const auto side = side_stream(*device);
  constexpr int64_t kSize = 6144;
  const at::Tensor slot = at::ones({kSize, kSize}, at::TensorOptions(*device).dtype(at::kFloat));
  for (int time = 0; time < 5; ++time) {
    slot.fill_(1);
    at::Tensor read = slot;
    for (int i = 0; i < 8; ++i) read = at::mm(slot, read).mul_(1.0 / kSize);
    const SideStream::Mark mark = side->mark();
    std::thread([&] { side->after(mark, [&] { slot.fill_(3); }); }).join();
    EXPECT_NEAR(read.min().item<double>(), 1, 1e-2);
    EXPECT_NEAR(read.max().item<double>(), 1, 1e-2);
    EXPECT_EQ(slot.min().item<double>(), 3) << "it is done when after() returns";
  }
}

// Two steps of a model whose layers have some pages each: the gradient of each process's own
// tensors has the bits of one process with all weights, and without a part of the weights it has
// not. Products add to no sums, of which a process (and so this test) has one set at a time.
TEST(GpuSharded, TwoProcessesHaveTheBitsOfOne) {
  const auto device = gpu();
  SKIP_WITHOUT_PAGES(device);
  // Attention's backward adds in any order unless it is told not to.
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setSDPUseCuDNN(false);
  for (const bool tied : {false, true}) {
    Config config = testing::divided_config();
    config.model.hidden_size = 768;
    config.model.intermediate_size = 2112;
    config.model.num_hidden_layers = 4;
    config.model.num_attention_heads = 12;
    config.model.num_key_value_heads = 4;
    config.model.initializer_range = 0.02;
    config.model.vocab_size = 4096;
    config.model.tie_word_embeddings = tied;
    config.model.activation_checkpointing = true;
    config.sequence.max_length = 128;
    config.compile = CompileMode::kScript;
    config.parallel.shard = ParallelShard::kParameters;
    Batch batch;
    batch.rows = batch.batch_rows = 5;
    batch.length = 128;
    batch.inputs = testing::random_ids(5 * 128, 1);
    batch.targets = testing::random_ids(5 * 128, 2);
    batch.num_targets = 5 * 128;
    const Precision bf16{at::kBFloat16};
    const std::vector<RowRange> halves = {{0, 3}, {3, 5}};
    at::Tensor expected, masters;
    std::vector<double> losses;
    {
      Engine whole(config, bf16, *device, {});
      whole.model().sum_by_products(false);
      whole.initialize(7);
      masters = whole.parameters().master().cpu();
      expected = at::zeros_like(masters);
      for (const RowRange& rows : halves) {
        losses.push_back(
            accumulate_rows(whole.model(), batch, rows, batch.length, whole.gradient()));
        expected += whole.gradient().cpu();
      }
    }
    const int64_t numel = masters.numel();
    for (const bool control : {false, true}) {
      as_ranks(2, [&](Processes& processes) {
        const OptimizerShards shards(processes, config, CommThreads(processes));
        const auto rank = static_cast<size_t>(processes.rank());
        Engine engine(config, bf16, *device, {.held = shards.held_gradient()});
        engine.model().sum_by_products(false);
        Parameters& parameters = engine.parameters();
        if (!control || rank == 0) testing::copy_own(shards, rank, masters, parameters.master());
        const auto held = shards.held_gradient();
        for (const ElementRange& range : *held) parameters.refresh_working(range.first, range.size);
        const ElementRange norms = shards.norms();
        norms.of(parameters.master()).copy_(norms.of(masters));
        parameters.refresh_working(norms.first, norms.size);
        ShardedWeights weights(processes, shards, engine.layout(), parameters.working(),
                               engine.gradient());
        engine.model().read_by_modules(weights);
        for (int again = 0; again < 2; ++again) {
          weights.begin_step();
          const std::vector<double> loss =
              accumulate_by_modules(engine.model(), batch, {halves[rank]}, 1, engine.gradient(), 1,
                                    [&](int64_t first, int64_t size) {
                                      weights.gradient_ready({first, size});
                                    });
          weights.finish();
          EXPECT_EQ(loss[0] == losses[rank], !control) << loss[0] << " " << losses[rank];
          bool equal = true;
          for (const DividedRange& chunk : shards.chunks()) {
            const ElementRange& range = chunk.ranges[rank];
            equal = equal && at::equal(range.of(engine.gradient()).cpu(), range.of(expected));
          }
          EXPECT_EQ(equal, !control) << "rank " << rank << ", tied " << tied;
        }
        // Both are here. Whole weights would take 10 bytes an element in each.
        processes.barrier();
        if (rank == 0) {
          EXPECT_LT(slotted_bytes(), static_cast<uint64_t>(19 * numel));
        }
        processes.barrier();
      });
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  at::globalContext().setSDPUseCuDNN(true);
}

}  // namespace
}  // namespace lmtrain
