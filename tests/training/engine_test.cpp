#include "training/engine.h"

#include <new>
#include <utility>

#include "device/torch_headers.h"
#include "distributed/gradient_reducer.h"
#include "distributed/group.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "support/tensors.h"
#include "training/graph_training.h"
#include "training/step.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

using testing::graph_batch;
using testing::graph_model_config;
using testing::kTinyLength;
using testing::kTinyVocabulary;
using testing::same_bits;

Config engine_config() {
  Config config;
  config.threads = 1;
  config.device = "cpu";
  config.precision = PrecisionSetting::kFp32;
  config.compile = CompileMode::kScript;
  config.model = graph_model_config();
  config.sequence.max_length = kTinyLength;
  config.optimizer.betas = {0.9, 0.95};
  config.clip.max = 0.5;
  return config;
}

// The engine does what its parts do when they are put together by hand.
TEST(Engine, AStepIsThatOfItsParts) {
  const testing::Threads one_thread{1};
  const Config config = engine_config();
  Engine engine(config);
  engine.initialize(/*seed=*/7);

  Parameters parameters(ParameterLayout(config.model, kTinyVocabulary), at::kFloat, at::kCPU);
  parameters.initialize(/*seed=*/7, config.model.initializer_range);
  Llama model(config.model, parameters, kTinyLength, config.compile);
  const auto optimizer = make_optimizer(config.optimizer, parameters);
  for (const OptimizerBuffer& buffer : optimizer->buffers()) buffer.values.zero_();
  const at::Tensor grad = at::zeros_like(parameters.master());

  for (int64_t step = 0; step < 4; ++step) {
    const Batch batch = graph_batch(step, /*packed=*/false);
    const double loss = engine.forward_backward(batch, 2);
    EXPECT_EQ(loss, accumulate_batch(model, batch, 2 * batch.length, grad));
    EXPECT_TRUE(same_bits(engine.gradient(), grad));
    const double norm = engine.grad_norm();
    EXPECT_EQ(norm, gradient_norm(grad, engine.layout()));
    const double factor = engine.clip(norm);
    EXPECT_EQ(factor, clip_gradient(config.clip, grad, norm));
    const UpdateStep update{
        step + 1, 1e-2, factor, {.total = 4, .steps = static_cast<double>(step + 1)}};
    engine.update(update);
    optimizer->update(update, grad);
    EXPECT_TRUE(same_bits(engine.parameters().master(), parameters.master())) << step;
  }
}

// The setting decides how weights begin.
TEST(Engine, InitializesAsTheModelSays) {
  Config config = engine_config();
  config.model.initializer = Initializer::kZeroOutputs;
  Engine engine(config);
  engine.initialize(/*seed=*/7);
  Parameters expected(ParameterLayout(config.model, kTinyVocabulary), at::kFloat, at::kCPU);
  expected.initialize(7, config.model.initializer_range, Initializer::kZeroOutputs);
  EXPECT_TRUE(same_bits(engine.parameters().master(), expected.master()));
}

// A second beginning forgets all of the first: weights and moments.
TEST(Engine, InitializeBeginsAnew) {
  const testing::Threads one_thread{1};
  Engine engine(engine_config());
  std::vector<at::Tensor> weights;
  for (int time = 0; time < 2; ++time) {
    engine.initialize(/*seed=*/7);
    for (int64_t step = 0; step < 3; ++step) {
      engine.forward_backward(graph_batch(step, /*packed=*/false), 4);
      engine.update({step + 1,
                     1e-2,
                     engine.clip(engine.grad_norm()),
                     {.total = 3, .steps = static_cast<double>(step + 1)}});
    }
    weights.push_back(engine.parameters().master().clone());
  }
  EXPECT_TRUE(same_bits(weights[0], weights[1]));
}

TEST(Engine, OnACpuEvaluationsComputeInFp32) {
  const Config config = engine_config();
  Engine fp32(config);
  EXPECT_EQ(&fp32.evaluation_model(), &fp32.model());
  Engine bf16(config, {at::kBFloat16}, at::kCPU, {});
  EXPECT_NE(&bf16.evaluation_model(), &bf16.model());
  EXPECT_EQ(&bf16.evaluation_model(), &bf16.evaluation_model());
  EXPECT_EQ(bf16.evaluation_model().parameters().working().scalar_type(), at::kFloat);
}

// As on a GPU: the working weights, and for fp8 products in their dtype.
TEST(Engine, EvaluationsComputeWithTheWorkingWeightsWhereTheyAreToldTo) {
  const Config config = engine_config();
  for (const bool fp8 : {false, true}) {
    Engine engine(config, {at::kBFloat16, fp8}, at::kCPU, {.evaluation = Precision{at::kBFloat16}});
    engine.initialize(/*seed=*/7);
    Llama& model = engine.evaluation_model();
    EXPECT_EQ(&model == &engine.model(), !fp8);
    EXPECT_EQ(&model.parameters(), &engine.parameters());
    EXPECT_EQ(model.logits(at::zeros({2, kTinyLength}, at::kLong)).scalar_type(), at::kBFloat16);
  }
}

// What an evaluation on a GPU differs by from `lmtrain eval`, which computes in fp32.
TEST(Engine, ALossInTheWorkingPrecisionIsNearThatInFp32) {
  const Config config = engine_config();
  const at::Tensor ids = testing::random_integers(0, kTinyVocabulary, {8, kTinyLength}, 5);
  const auto loss_in = [&](at::ScalarType evaluation) {
    Engine engine(config, {at::kBFloat16}, at::kCPU, {.evaluation = Precision{evaluation}});
    engine.initialize(/*seed=*/7);
    const at::Tensor losses = engine.evaluation_model().target_losses(micro_batch(ids, ids, 1.0));
    return losses.sum(at::kDouble).item<double>() / static_cast<double>(ids.numel());
  };
  const double fp32 = loss_in(at::kFloat), bf16 = loss_in(at::kBFloat16);
  EXPECT_NE(bf16, fp32);
  EXPECT_NEAR(bf16, fp32, 1e-3 * fp32);
}

// ---- Several processes, which are threads of the test ----

constexpr int64_t kRows = 8;

Config shared_config(ParallelSum sum, ParallelShard shard) {
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

std::vector<double> compute(Engine& engine, const Processes& processes, double loss_scale,
                            GradientReducer& reducer) {
  return engine.forward_backward(share_of({processes.rank(), processes.count()}), /*micro_rows=*/1,
                                 loss_scale, reducer);
}

at::Tensor gradient_of_one(const Config& config) {
  Engine engine(config);
  engine.initialize(1);
  OptimizerShards shards(only_process(), config);
  const auto reducer = make_gradient_reducer(only_process(), config.parallel, shards,
                                             engine.model(), engine.gradient());
  compute(engine, only_process(), /*loss_scale=*/1, *reducer);
  reducer->finish();
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

// One process of a run.
struct Member {
  Member(Processes& processes, const Config& config, CommThreads threads)
      : shards(processes, config, std::move(threads)),
        engine(config, {processes.rank(), processes.count()}, shards.owned()),
        reducer(make_gradient_reducer(processes, config.parallel, shards, engine.model(),
                                      engine.gradient())) {
    engine.initialize(1);
  }
  OptimizerShards shards;
  Engine engine;
  std::unique_ptr<GradientReducer> reducer;
};

// Calls `told` after elements were handed over, which may throw.
class Watched final : public GradientReducer {
 public:
  Watched(GradientReducer& reducer, std::function<void()> told)
      : reducer_(reducer), told_(std::move(told)) {}
  bool overlaps() const override { return reducer_.overlaps(); }
  void begin_step() override { reducer_.begin_step(); }
  void gradient_ready(const ElementRange& elements) override {
    reducer_.gradient_ready(elements);
    told_();
  }
  bool has_begun() const override { return reducer_.has_begun(); }
  void finish() override { reducer_.finish(); }

 private:
  GradientReducer& reducer_;
  std::function<void()> told_;
};

TEST(EngineOfSeveral, TheGradientIsTheSameWithAndWithoutOverlap) {
  for (const ParallelSum how : {ParallelSum::kExact, ParallelSum::kFast}) {
    for (const ParallelShard shard : {ParallelShard::kOptimizer, ParallelShard::kNone}) {
      const Config config = shared_config(how, shard);
      const at::Tensor one = gradient_of_one(config);
      for (const bool overlaps : {true, false}) {
        for (const int count : {2, 4}) {
          as_ranks(count, [&](Processes& processes) {
            // Without a thread beside, nothing is summed during the backward.
            Member member(
                processes, config,
                overlaps ? CommThreads(processes.extra_groups(3)) : CommThreads(processes));
            int told = 0;
            Watched reducer(*member.reducer, [&] { ++told; });
            for (const double loss_scale : {1.0, 64.0}) {
              compute(member.engine, processes, loss_scale, reducer);
              reducer.finish();
              const at::Tensor found =
                                   needed_of(member.engine.gradient(), processes, member.shards),
                               expected = needed_of(one, processes, member.shards);
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
TEST(EngineOfSeveral, AFailureInMidBackwardSpoilsTheSum) {
  const Config config = shared_config(ParallelSum::kExact, ParallelShard::kOptimizer);
  const at::Tensor one = gradient_of_one(config);
  as_ranks(2, [&](Processes& processes) {
    Member member(processes, config, CommThreads(processes.extra_groups(3)));
    int told = 0;
    Watched failing(*member.reducer, [&] {
      if (processes.rank() == 1 && ++told == 5) throw std::bad_alloc();
    });
    if (processes.rank() == 1) {
      EXPECT_THROW(compute(member.engine, processes, 1, failing), std::bad_alloc);
    } else {
      compute(member.engine, processes, 1, failing);
    }
    EXPECT_TRUE(failing.has_begun());
    failing.finish();
    EXPECT_FALSE(failing.has_begun());

    GradientReducer& reducer = *member.reducer;
    if (processes.rank() == 1) {
      Batch no_rows;
      no_rows.length = 1;
      const auto losses = member.engine.forward_backward(no_rows, 1, 1, reducer);
      EXPECT_EQ(losses, std::vector<double>(member.engine.num_losses()));
    } else {
      compute(member.engine, processes, 1, reducer);
    }
    reducer.finish();

    compute(member.engine, processes, 1, reducer);
    reducer.finish();
    EXPECT_TRUE(at::equal(needed_of(member.engine.gradient(), processes, member.shards),
                          needed_of(one, processes, member.shards)));
  });
}

}  // namespace
}  // namespace lmtrain
