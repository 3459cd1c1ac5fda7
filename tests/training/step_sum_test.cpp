// Loss and gradient of a step by several processes, which are threads of the test.
#include "training/step_sum.h"

#include <gtest/gtest.h>

#include <new>

#include "device/torch_headers.h"
#include "distributed/group.h"
#include "training/resolve.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

using testing::kTinyLength;

constexpr int64_t kRows = 8;

Config config_of(ParallelSum sum, ParallelShard shard) {
  Config config;
  config.model = testing::tiny_model_config();
  config.sequence.max_length = kTinyLength;
  config.precision = PrecisionSetting::kFp32;
  config.device = "cpu";
  config.compile = CompileMode::kEager;
  config.parallel.sum = sum;
  config.parallel.shard = shard;
  return config;
}

Batch share_of(const BatchShare& share) {
  const RowRange rows = rows_of_part(kRows, share.rank, share.count);
  const auto part = [&](std::vector<int32_t> ids) {
    return std::vector<int32_t>(ids.begin() + rows.first * kTinyLength,
                                ids.begin() + rows.end * kTinyLength);
  };
  Batch batch;
  batch.batch_rows = kRows;
  batch.first_row = rows.first;
  batch.rows = rows.end - rows.first;
  batch.length = kTinyLength;
  batch.inputs = part(testing::random_ids(kRows * kTinyLength, 1));
  batch.targets = part(testing::random_ids(kRows * kTinyLength, 2));
  batch.num_targets = kRows * kTinyLength;
  for (int64_t row = 0; row < batch.rows; ++row)
    batch.segments.push_back(static_cast<int32_t>(row * kTinyLength));
  return batch;
}

at::Tensor gradient_of_one(const Config& config) {
  Engine engine(config);
  engine.initialize(1);
  ExchangeLines none(only_process());
  const OptimizerShards shards(only_process(), config, none);
  StepSum sum(only_process(), config.parallel, engine, shards, none);
  sum.compute(share_of(sum.share()), /*micro_rows=*/1, /*loss_scale=*/1);
  sum.sum_gradient();
  return engine.gradient().clone();
}

// Returns the elements that a process needs of the sum.
at::Tensor needed_of(const at::Tensor& gradient, const Processes& processes,
                     const OptimizerShards& shards) {
  if (!shards.is_divided()) return gradient;
  std::vector<at::Tensor> parts;
  for (const DividedRange& chunk : shards.chunks())
    parts.push_back(chunk.ranges[static_cast<size_t>(processes.rank())].of(gradient));
  return at::cat(parts);
}

TEST(StepSum, IsTheSameWithAndWithoutOverlap) {
  for (const ParallelSum how : {ParallelSum::kExact, ParallelSum::kFast}) {
    for (const ParallelShard shard : {ParallelShard::kOptimizer, ParallelShard::kNone}) {
      const Config config = config_of(how, shard);
      const at::Tensor one = gradient_of_one(config);
      for (const bool overlaps : {true, false}) {
        for (const int count : {2, 4}) {
          as_ranks(count, [&](Processes& processes) {
            // Without a line beside, nothing is summed during the backward.
            ExchangeLines lines =
                overlaps ? ExchangeLines(processes.aside(3)) : ExchangeLines(processes);
            const OptimizerShards shards(processes, config, lines);
            Engine engine(config, shards.owned());
            engine.initialize(1);
            StepSum sum(processes, config.parallel, engine, shards, lines);
            int told = 0;
            sum.after_elements = [&] { ++told; };
            for (const double loss_scale : {1.0, 64.0}) {
              sum.compute(share_of(sum.share()), 1, loss_scale);
              sum.sum_gradient();
              const at::Tensor found = needed_of(engine.gradient(), processes, shards),
                               expected = needed_of(one, processes, shards);
              if (how == ParallelSum::kExact) {
                EXPECT_TRUE(at::equal(found, expected)) << count << " " << overlaps;
              } else {
                EXPECT_LT((found - expected).abs().max().item<double>(), 1e-6);
              }
            }
            EXPECT_EQ(told > 0, overlaps);
          });
        }
      }
    }
  }
}

// Memory runs out in one process when it has handed out a part of its gradient. Nobody hangs, and
// the step can be computed again; likewise with a process that cannot read its rows.
TEST(StepSum, AFailureInMidBackwardSpoilsTheSum) {
  const Config config = config_of(ParallelSum::kExact, ParallelShard::kOptimizer);
  const at::Tensor one = gradient_of_one(config);
  as_ranks(2, [&](Processes& processes) {
    ExchangeLines lines(processes.aside(3));
    const OptimizerShards shards(processes, config, lines);
    Engine engine(config, shards.owned());
    engine.initialize(1);
    StepSum sum(processes, config.parallel, engine, shards, lines);
    const Batch share = share_of(sum.share());
    int told = 0;
    if (processes.rank() == 1) {
      sum.after_elements = [&] {
        if (++told == 5) throw std::bad_alloc();
      };
      EXPECT_THROW(sum.compute(share, 1, 1), std::bad_alloc);
      EXPECT_TRUE(sum.is_spoiled());
    } else {
      sum.compute(share, 1, 1);
      EXPECT_FALSE(sum.is_spoiled());
    }
    sum.sum_gradient();

    if (processes.rank() == 1) {
      sum.take_part_without_rows();
    } else {
      sum.compute(share, 1, 1);
    }
    sum.end_begun_sum();

    sum.compute(share, 1, 1);
    EXPECT_FALSE(sum.is_spoiled());
    sum.sum_gradient();
    EXPECT_TRUE(at::equal(needed_of(engine.gradient(), processes, shards),
                          needed_of(one, processes, shards)));
  });
}

}  // namespace
}  // namespace lmtrain
