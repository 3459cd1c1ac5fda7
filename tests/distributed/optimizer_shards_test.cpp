// The optimizer divided over processes, which are threads of the test.
#include "distributed/optimizer_shards.h"

#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "device/torch_headers.h"
#include "distributed/divided_config.h"
#include "distributed/group.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::random_tensor;

Config config_of(OptimizerType type) {
  Config config = testing::divided_config();
  config.optimizer.type = type;
  return config;
}

int64_t flat_size(const Config& config) { return testing::layout_of(config).flat_size(); }

TEST(OptimizerShards, OneProcessAndNoneAreUndivided) {
  Config config = config_of(OptimizerType::kAdamW);
  EXPECT_FALSE(OptimizerShards(only_process(), config).is_divided());
  config.parallel.shard = ParallelShard::kNone;
  as_ranks(2, [&](Processes& processes) {
    const OptimizerShards shards(processes, config, CommThreads(processes.extra_groups(2)));
    EXPECT_FALSE(shards.is_divided());
    EXPECT_TRUE(shards.owned()(ParameterSpec{}));
  });
}

// Returns the elements of `flat` that a process owns, and NaN elsewhere.
at::Tensor own_part(const OptimizerShards& shards, size_t rank, const at::Tensor& flat) {
  at::Tensor part = at::full_like(flat, NAN);
  testing::copy_own(shards, rank, flat, part);
  return part;
}

// The norm needs no more of the gradient than a process's own tensors, and all of these.
TEST(OptimizerShards, TheNormHasTheBitsOfOneProcess) {
  const Config config = config_of(OptimizerType::kAdamW);
  const ParameterLayout layout = testing::layout_of(config);
  const at::Tensor grad = random_tensor({layout.flat_size()}, 3);
  ASSERT_GT(grad.numel(), 3 * kNormBlock);
  const double expected = gradient_norm(grad, layout);
  for (const int count : {2, 3, 4}) {
    as_ranks(count, [&](Processes& processes) {
      const OptimizerShards shards(processes, config, CommThreads(processes.extra_groups(2)));
      const auto rank = static_cast<size_t>(processes.rank());
      at::Tensor known = own_part(shards, rank, grad);
      EXPECT_EQ(shards.gradient_norm(known), expected) << count;
      if (processes.is_first()) known[shards.chunks()[0].ranges[0].first] += 1;
      EXPECT_NE(shards.gradient_norm(known), expected);
    });
  }
}

TEST(OptimizerShards, TheFirstNameInTheLayoutIsFound) {
  const Config config = config_of(OptimizerType::kAdamW);
  as_ranks(3, [&](Processes& processes) {
    const OptimizerShards shards(processes, config, CommThreads(processes.extra_groups(2)));
    EXPECT_EQ(shards.first_of_all(""), "");
    const std::vector<std::string> names = {"model.norm.weight", "",
                                            "model.layers.1.self_attn.q_proj.weight"};
    EXPECT_EQ(shards.first_of_all(names[static_cast<size_t>(processes.rank())]), names[2]);
    EXPECT_EQ(shards.broadcast_text(processes.is_first() ? "first" : "other"), "first");
  });
}

// Buffers go from one process to their owners, and come back in the order of one process.
TEST(OptimizerShards, BuffersAreThoseOfOneProcess) {
  for (const OptimizerType type : {OptimizerType::kAdamW, OptimizerType::kMuon}) {
    Config config = config_of(type);
    config.optimizer.normuon = true;  // the second moments of muon's rows are buffers too
    Parameters whole(ParameterLayout(config.model, *config.model.vocab_size), at::kFloat, at::kCPU);
    const auto alone = make_optimizer(config.optimizer, whole);
    uint64_t seed = 0;
    for (const OptimizerBuffer& buffer : alone->buffers())
      buffer.values.copy_(random_tensor(buffer.values.sizes(), ++seed));
    for (const int count : {2, 3}) {
      as_ranks(count, [&](Processes& processes) {
        OptimizerShards shards(processes, config, CommThreads(processes.extra_groups(2)));
        Parameters parameters(whole.layout(), at::kFloat, at::kCPU);
        const auto optimizer = make_optimizer(config.optimizer, parameters, shards.owned());
        EXPECT_LT(optimizer->buffers().size(), alone->buffers().size());
        size_t next = 0;
        shards.load(*optimizer, [&](const OptimizerBuffer& buffer) {
          EXPECT_TRUE(processes.is_first());
          EXPECT_EQ(buffer.name, alone->buffers()[next].name);
          return alone->buffers()[next++].values.clone();
        });
        const std::vector<OptimizerBuffer> all = shards.collect(*optimizer, CheckpointWriters());
        ASSERT_EQ(all.size(), processes.is_first() ? alone->buffers().size() : 0U);
        for (size_t i = 0; i < all.size(); ++i) {
          EXPECT_EQ(all[i].name, alone->buffers()[i].name);
          EXPECT_TRUE(at::equal(all[i].values, alone->buffers()[i].values)) << all[i].name;
        }
      });
    }
  }
}

// Each process that writes has the masters and buffers of its own tensors; rank 0 those of the
// others too, which may have changed since they were gathered.
TEST(OptimizerShards, WritersHaveWhatTheyWrite) {
  for (const ParallelShard shard : {ParallelShard::kOptimizer, ParallelShard::kParameters}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      Config config = config_of(OptimizerType::kAdamW);
      config.parallel.shard = shard;
      const at::Tensor masters = random_tensor({flat_size(config)}, 5);
      as_ranks(3, [&](Processes& processes) {
        OptimizerShards shards(processes, config, CommThreads(processes.extra_groups(2)));
        Parameters parameters(testing::layout_of(config), dtype, at::kCPU);
        const auto optimizer = make_optimizer(config.optimizer, parameters, shards.owned());
        const auto rank = static_cast<size_t>(processes.rank());
        parameters.master().copy_(own_part(shards, rank, masters));
        parameters.refresh_working();
        shards.gather_working(parameters);
        const CheckpointWriters writers({true, false, true});
        std::vector<size_t> expected = {rank};
        if (rank == 0) expected = {0, 1};
        if (rank == 1) expected.clear();
        const std::vector<MasterRange> mine = shards.collect_masters(parameters, writers);
        std::map<int64_t, int64_t> ranges;  // the sizes by where they begin
        for (const size_t owner : expected) {
          for (const DividedRange& chunk : shards.chunks()) {
            const ElementRange& range = chunk.ranges[owner];
            if (range.size > 0) ranges[range.first] = range.size;
          }
        }
        ASSERT_EQ(mine.size(), ranges.size());
        auto next = ranges.begin();
        for (const MasterRange& written : mine) {
          const ElementRange range{next->first, next->second};
          ++next;
          EXPECT_EQ(written.first, range.first);
          ASSERT_EQ(written.values.numel(), range.size);
          for (const ParameterSpec& spec : parameters.layout().parameters()) {
            if (spec.offset < range.first || spec.offset >= range.end()) continue;
            EXPECT_TRUE(at::equal(written.values.narrow(0, spec.offset - range.first, spec.numel()),
                                  masters.narrow(0, spec.offset, spec.numel())));
          }
        }
        const size_t buffers = shards.collect(*optimizer, writers).size();
        const std::vector<double> all = processes.all_gather_values({static_cast<double>(buffers)});
        EXPECT_EQ(all[0] + all[2], static_cast<double>(shards.all_buffers().size()));
        EXPECT_EQ(all[1], 0);
        EXPECT_GT(all[2], 0);
      });
    }
  }
}

// Where training waits for a checkpoint, nothing changes that a copy would have to keep.
TEST(OptimizerShards, ACheckpointThatIsWaitedForIsNotCopied) {
  for (const bool async : {true, false}) {
    Config config = config_of(OptimizerType::kMuon);
    config.checkpoint.async = async;
    OptimizerShards shards(only_process(), config);
    Parameters parameters(ParameterLayout(config.model, *config.model.vocab_size), at::kFloat,
                          at::kCPU);
    const auto optimizer = make_optimizer(config.optimizer, parameters);
    const auto masters = shards.collect_masters(parameters, CheckpointWriters());
    ASSERT_EQ(masters.size(), 1U);
    EXPECT_EQ(masters[0].values.data_ptr() == parameters.master().data_ptr(), !async);
    EXPECT_TRUE(at::equal(masters[0].values, parameters.master()));
    const std::vector<OptimizerBuffer> all = shards.collect(*optimizer, CheckpointWriters());
    ASSERT_EQ(all.size(), optimizer->buffers().size());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].values.data_ptr() == optimizer->buffers()[i].values.data_ptr(), !async);
    }
  }
}

// In bf16 a process's masters of other tensors are old until they are gathered.
TEST(OptimizerShards, WeightsAreGathered) {
  const Config config = config_of(OptimizerType::kAdamW);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    as_ranks(4, [&](Processes& processes) {
      OptimizerShards shards(processes, config, CommThreads(processes.extra_groups(2)));
      Parameters parameters(ParameterLayout(config.model, *config.model.vocab_size), dtype,
                            at::kCPU);
      const at::Tensor updated = random_tensor(parameters.master().sizes(), 5);
      const ParameterFilter owned = shards.owned();
      for (const ParameterSpec& spec : parameters.layout().parameters()) {
        if (!owned(spec)) continue;
        parameters.master_view(spec).view(-1).copy_(updated.narrow(0, spec.offset, spec.numel()));
        parameters.refresh_working(spec.offset, spec.numel());
      }
      const auto all_equal = [&](const at::Tensor& flat) {
        bool equal = true;
        for (const ParameterSpec& spec : parameters.layout().parameters()) {
          equal =
              equal &&
              at::equal(
                  flat.narrow(0, spec.offset, spec.numel()),
                  updated.narrow(0, spec.offset, spec.numel()).to(dtype).to(flat.scalar_type()));
        }
        return equal;
      };
      shards.gather_working(parameters);
      EXPECT_TRUE(all_equal(parameters.working()));
      shards.gather_masters(parameters);
      const ParameterSpec& last = parameters.layout().parameters().back();
      for (const ParameterSpec& spec : {parameters.layout().parameters().front(), last}) {
        EXPECT_TRUE(at::equal(parameters.master_view(spec).view(-1),
                              updated.narrow(0, spec.offset, spec.numel())));
      }
    });
  }
}

}  // namespace
}  // namespace lmtrain
