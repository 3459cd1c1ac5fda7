#include "training/plan.h"

#include <numeric>

#include "batching/test_corpus.h"
#include "device/torch_headers.h"
#include "ops/operators.h"
#include "optim/make_optimizer.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

Config planned_config() {
  Config config;
  config.model = testing::tiny_model_config();
  config.device = "cpu";
  config.precision = PrecisionSetting::kFp32;
  config.sequence.max_length = 64;
  config.sequence.min_length = 8;
  config.batch.tokens = 256;
  config.batch.micro_tokens = 128;
  config.train.tokens.reset();
  config.train.steps = 200;
  return config;
}

class PlanTest : public ::testing::Test {
 protected:
  BatchOrder order(const Config& config) const {
    return BatchOrder({.shard = shard_,
                       .fingerprint = "corpus",
                       .sequence = config.sequence,
                       .data = config.data,
                       .data_seed = 1,
                       .batch_tokens = config.batch.tokens,
                       .run = {.steps = 200}});
  }
  TokenShard shard_ = make_shard(random_sizes(1, 100, 700));
};

TEST_F(PlanTest, SharesOfLengthsAreThoseOfTheBatches) {
  const Config config = planned_config();
  const BatchOrder batches = order(config);
  const std::vector<int64_t> lengths = batches.batch_lengths();
  ASSERT_GT(lengths.size(), 2U);
  for (const int64_t columns : {1, 7, 200, 1000}) {
    const auto shares = length_shares(batches, columns);
    ASSERT_EQ(static_cast<int64_t>(shares.size()), std::min<int64_t>(columns, 200));
    for (const auto& share : shares)
      EXPECT_NEAR(std::accumulate(share.begin(), share.end(), 0.0), 1.0, 1e-9);
  }
  // A column a batch: what it shows is the batch.
  const auto each = length_shares(batches, 200);
  for (int64_t k = 0; k < 200; ++k) {
    const size_t index = static_cast<size_t>(
        std::find(lengths.begin(), lengths.end(), batches.batch_length(k)) - lengths.begin());
    EXPECT_EQ(each[static_cast<size_t>(k)][index], 1.0) << k;
  }
}

TEST_F(PlanTest, CountsEventsInEveryUnit) {
  Config config = planned_config();
  PreparedData data;
  data.eval_shard = "held out";
  struct Case {
    TrainingDuration every;
    std::optional<int64_t> checkpoints;
  };
  const std::vector<Case> cases = {
      {{0, TrainingDuration::Unit::kSteps}, 1},        // only at the end
      {{50, TrainingDuration::Unit::kSteps}, 4},       // 50, 100, 150, the end
      {{60, TrainingDuration::Unit::kSteps}, 4},       // 60, 120, 180, the end
      {{5, TrainingDuration::Unit::kPercent}, 20},     //
      {{0.1, TrainingDuration::Unit::kPercent}, 200},  // oftener than steps come
      {{2560, TrainingDuration::Unit::kTokens}, 20},   // ten steps of 256
      {{33.2, TrainingDuration::Unit::kPercent}, 3},   // 66.4, 132.8; 199.2 is the end
      {{1000, TrainingDuration::Unit::kSteps}, 1},     // later than the run ends
      {{90, TrainingDuration::Unit::kSeconds}, std::nullopt},
  };
  const BatchOrder batches = order(config);
  for (const Case& test : cases) {
    config.checkpoint.every = test.every;
    config.eval.every = test.every;
    const RunPlan plan = plan_run(config, data, batches, 1);
    EXPECT_EQ(plan.checkpoints, test.checkpoints) << test.every.value;
    // And one before the first step.
    EXPECT_EQ(plan.evaluations.has_value(), test.checkpoints.has_value());
    if (plan.evaluations) {
      EXPECT_EQ(*plan.evaluations, *test.checkpoints + 1);
    }
  }
  EXPECT_EQ(plan_run(config, PreparedData{}, batches, 1).evaluations, 0);
}

TEST_F(PlanTest, CountsCheckpointsThatAreNeverRemoved) {
  Config config = planned_config();
  config.checkpoint.every = {60, TrainingDuration::Unit::kSteps};
  const BatchOrder batches = order(config);
  EXPECT_EQ(plan_run(config, {}, batches, 1).kept_checkpoints, 0);
  config.checkpoint.keep_every = {{50, TrainingDuration::Unit::kSteps}};
  const RunPlan plan = plan_run(config, {}, batches, 1);
  EXPECT_EQ(plan.checkpoints, 7);  // 50, 60, 100, 120, 150, 180, the end
  EXPECT_EQ(plan.kept_checkpoints, 3);
  config.lr_schedule.type = LrScheduleType::kWsd;  // the decay begins at 160
  EXPECT_EQ(plan_run(config, {}, batches, 1).kept_checkpoints, 4);
  config.checkpoint.keep_every = {{90, TrainingDuration::Unit::kSeconds}};
  EXPECT_EQ(plan_run(config, {}, batches, 1).kept_checkpoints, std::nullopt);
  EXPECT_EQ(plan_run(config, {}, batches, 1).checkpoints, std::nullopt);
}

TEST_F(PlanTest, CountsCheckpointsThatEvaluationsMayAdd) {
  Config config = planned_config();
  config.checkpoint.every = {60, TrainingDuration::Unit::kSteps};
  config.eval.every = {40, TrainingDuration::Unit::kSteps};
  const BatchOrder batches = order(config);
  PreparedData data;
  data.eval_shard = "held_out.bin";
  config.checkpoint.keep_best = 0;
  EXPECT_EQ(plan_run(config, data, batches, 1).best_checkpoints, 0);
  config.checkpoint.keep_best = 2;
  EXPECT_EQ(plan_run(config, data, batches, 1).checkpoints, 4);       // 60, 120, 180, the end
  EXPECT_EQ(plan_run(config, data, batches, 1).best_checkpoints, 4);  // 0, 40, 80, 160
  EXPECT_EQ(plan_run(config, {}, batches, 1).best_checkpoints, 0) << "no held-out text";
  config.eval.every = {90, TrainingDuration::Unit::kSeconds};
  EXPECT_EQ(plan_run(config, data, batches, 1).best_checkpoints, std::nullopt);
}

TEST_F(PlanTest, MemoryIsThatOfTheShapes) {
  Config config = planned_config();
  const MemoryPlan fp32 = plan_memory(config, {at::kFloat}, 128);
  const ParameterLayout layout(config.model, 50);
  const int64_t flat = layout.flat_size();
  const int64_t moments = 8 * layout.num_parameters();  // AdamW's two
  EXPECT_EQ(fp32.weights, 4 * flat);
  EXPECT_EQ(fp32.working_weights, 0);
  EXPECT_EQ(fp32.gradient, 4 * flat);
  EXPECT_EQ(fp32.optimizer, moments);
  EXPECT_EQ(fp32.micro_gradient, 4 * flat);
  EXPECT_EQ(fp32.logits, 4 * 128 * 50);
  // Two layers of 16 + 16 (norm, matrix), 32 (q, k, v), 16 (o), 16 + 16, 48; the last norm.
  EXPECT_EQ(fp32.activations, 4 * 128 * (2 * (32 + 32 + 16 + 32 + 48) + 32));
  EXPECT_EQ(fp32.snapshot, 4 * flat + moments);
  // Gradients of gate and up, SwiGLU's value, two inputs.
  EXPECT_EQ(fp32.temporaries, 4 * 128 * (3 * 24 + 2 * 16));
  const MemoryPlan bf16 = plan_memory(config, {at::kBFloat16}, 128);
  EXPECT_EQ(bf16.weights, 4 * flat);
  EXPECT_EQ(bf16.working_weights, 2 * flat);
  EXPECT_EQ(bf16.gradient, 4 * flat);
  Config exact = config;
  exact.parallel = {.sum = ParallelSum::kExact, .parts = 8};
  EXPECT_EQ(plan_memory(exact, {at::kFloat}, 128).gradient, 4 * 4 * flat);
  EXPECT_EQ(bf16.optimizer, moments);
  EXPECT_EQ(2 * bf16.activations, fp32.activations);
  EXPECT_EQ(bf16.micro_gradient, 2 * flat);
  // On a GPU those of the matrices of both layers are added up at once, but for fp8's.
  const Parameters parameters(ParameterLayout(config.model, *config.model.vocab_size),
                              at::kBFloat16, at::kMeta);
  const at::Device gpu(at::kCUDA, 0);
  const int64_t matrices = 2 * 16 * (32 + 16 + 48 + 24);
  EXPECT_EQ(micro_gradient_bytes(parameters, {at::kBFloat16}, gpu), 2 * (flat - matrices));
  EXPECT_EQ(micro_gradient_bytes(parameters, {at::kBFloat16, /*fp8=*/true}, gpu), 2 * flat);
  // In fp8 one byte for each number that a matrix is multiplied by, also where attention keeps it,
  // or where bf16 computes it again.
  const MemoryPlan fp8 = plan_memory(config, {at::kBFloat16, /*fp8=*/true}, 128);
  EXPECT_EQ(fp8.working_weights, bf16.working_weights);
  EXPECT_EQ(fp8.activations, bf16.activations - 128 * 2 * (16 + 16 - 16 - 24));
  // The input of both layers (16), and all of one.
  config.model.activation_checkpointing = true;
  EXPECT_EQ(plan_memory(config, {at::kFloat}, 128).activations, 4 * 128 * (2 * 16 + 160 + 32));
  config.checkpoint.async = false;
  EXPECT_EQ(plan_memory(config, {at::kFloat}, 128).snapshot, 0);
}

// Peaks of `lmtrain bench` on an H100 in bf16 (docs/benchmarks/2026-11-27-h100.md), where SwiGLU's
// value was kept. The plan is theirs but for what a GPU has otherwise, which is put in here.
TEST(MemoryPlan, IsNearThePeaksOfAnH100) {
  struct Peak {
    ModelConfig model;
    int64_t positions;
    double bytes;
  };
  const auto llama = [](int64_t width, int64_t intermediate, int64_t layers, int64_t heads,
                        int64_t kv_heads, int64_t vocabulary, bool tied) {
    ModelConfig model;
    model.hidden_size = width;
    model.intermediate_size = intermediate;
    model.num_hidden_layers = layers;
    model.num_attention_heads = heads;
    model.num_key_value_heads = kv_heads;
    model.vocab_size = vocabulary;
    model.tie_word_embeddings = tied;
    return model;
  };
  const std::vector<Peak> peaks = {
      {llama(256, 704, 6, 4, 4, 8192, true), 32768, 2.43e9},
      {llama(768, 2048, 12, 12, 12, 50304, true), 65536, 26.56e9},
      {llama(1024, 2816, 24, 16, 16, 50304, true), 32768, 36.38e9},
      {llama(2048, 5632, 22, 32, 4, 32000, false), 16384, 42.71e9},
  };
  const at::Device gpu(at::kCUDA, 0);
  const Precision bf16{at::kBFloat16};
  for (const Peak& peak : peaks) {
    Config config = planned_config();
    config.model = peak.model;
    config.batch.tokens = 131072;
    MemoryPlan plan = plan_memory(config, bf16, peak.positions);
    const int64_t vocabulary = *peak.model.vocab_size;
    const Parameters parameters(ParameterLayout(peak.model, vocabulary), at::kBFloat16, at::kMeta);
    plan.micro_gradient = micro_gradient_bytes(parameters, bf16, gpu);
    plan.logits =
        2 * vocabulary *
        std::min(peak.positions, linear_cross_entropy_chunk(gpu, at::kBFloat16, vocabulary));
    plan.swiglu_value = swiglu_value_bytes(config, bf16, peak.positions);
    plan.temporaries = 0;
    EXPECT_NEAR(static_cast<double>(plan.device_total()), peak.bytes, 0.05 * peak.bytes)
        << parameters.layout().num_parameters() << " parameters";
  }
}

// The largest share counts, and is what a process writes of a checkpoint.
TEST_F(PlanTest, SeveralProcessesDivideTheOptimizer) {
  Config config = planned_config();
  config.parallel.shard = ParallelShard::kNone;
  const MemoryPlan whole = plan_memory(config, {at::kFloat}, 128);
  EXPECT_EQ(plan_memory(config, {at::kFloat}, 128, 4).optimizer, whole.optimizer);
  config.parallel.shard = ParallelShard::kOptimizer;
  EXPECT_EQ(plan_memory(config, {at::kFloat}, 128).optimizer, whole.optimizer);
  EXPECT_EQ(plan_memory(config, {at::kFloat}, 128).snapshot, whole.snapshot);
  int64_t last = whole.optimizer, last_snapshot = whole.snapshot;
  for (const int count : {2, 3, 4}) {
    const MemoryPlan divided = plan_memory(config, {at::kFloat}, 128, count);
    EXPECT_GE(count * divided.optimizer, whole.optimizer) << count;
    EXPECT_LT(divided.optimizer, last) << count;
    EXPECT_EQ(divided.weights, whole.weights);
    EXPECT_GE(count * divided.snapshot, whole.snapshot);
    EXPECT_LT(divided.snapshot, last_snapshot);
    last = divided.optimizer;
    last_snapshot = divided.snapshot;
  }
}

// Shapes of Llama 2 on eight GPUs, in bf16 and by Muon: the batch of the recipe, and half of it.
// Both fit 80 GB, with room for NCCL and libraries.
TEST_F(PlanTest, GpusDivideWeightsAndGradientToo) {
  struct Shape {
    int64_t hidden, intermediate, layers, heads, batch;
    double parameters;
  };
  const at::Device gpu(at::kCUDA, 0);
  const Precision bf16{at::kBFloat16};
  for (const Shape& shape :
       {Shape{4096, 11008, 32, 32, 1048576, 6.74e9}, Shape{5120, 13824, 40, 40, 524288, 13.0e9}}) {
    Config config = planned_config();
    config.model.hidden_size = shape.hidden;
    config.model.intermediate_size = shape.intermediate;
    config.model.num_hidden_layers = shape.layers;
    config.model.num_attention_heads = config.model.num_key_value_heads = shape.heads;
    config.model.vocab_size = 32000;
    config.model.tie_word_embeddings = false;
    config.model.activation_checkpointing = true;
    config.sequence.max_length = 4096;
    config.batch.tokens = shape.batch;
    config.optimizer.type = OptimizerType::kMuon;
    config.optimizer.normuon = true;
    config.parallel.shard = ParallelShard::kOptimizer;
    const MemoryPlan optimizer = plan_memory(config, bf16, 8192, 8, gpu);
    config.parallel.shard = ParallelShard::kParameters;
    const MemoryPlan plan = plan_memory(config, bf16, 8192, 8, gpu);
    const double share = shape.parameters / 8;
    const ParameterLayout layout(config.model, 32000);
    const auto layer = static_cast<double>(module_ranges(layout)[1].size);
    // Muon's owners have equal work, not equal shares, and a page of 2 MiB belongs to one module.
    const auto expect_near = [](int64_t planned, double expected) {
      EXPECT_GT(static_cast<double>(planned), expected);
      EXPECT_LT(static_cast<double>(planned), 1.25 * expected);
    };
    expect_near(plan.weights, 4 * share);
    expect_near(plan.working_weights, 2 * (share + 2 * layer));
    expect_near(plan.gradient, 4 * (share + 2 * layer));
    EXPECT_EQ(plan.optimizer, optimizer.optimizer);
    EXPECT_EQ(plan.micro_gradient, 2 * 32000 * shape.hidden);
    // The inputs of all layers, of all positions of the share.
    const auto inputs = static_cast<double>(shape.batch / 8 * 2 * shape.hidden * shape.layers);
    EXPECT_NEAR(static_cast<double>(plan.activations), inputs, 0.08 * inputs);
    EXPECT_LT(static_cast<double>(plan.device_total()), kUsableOnGpu * 80e9);
    // With an exact sum, sums of parts wait too.
    config.parallel.sum = ParallelSum::kExact;
    config.parallel.parts = 32;
    EXPECT_EQ(plan_memory(config, bf16, 8192, 8, gpu).gradient - plan.gradient,
              4 * (2 * module_ranges(layout)[1].size + (int64_t{1} << 22)));
  }
}

// Rules are asked on a device without memory; they must say there what they keep where there is
// some.
TEST_F(PlanTest, OptimizersKeepWhatIsPlanned) {
  Config config = planned_config();
  config.optimizer.betas = {0.9, 0.99, 0.999};
  const auto kept = [&] {
    Parameters parameters(ParameterLayout(config.model, 50), at::kFloat, at::kCPU);
    const auto optimizer = make_optimizer(config.optimizer, parameters);
    int64_t bytes = 0;
    for (const OptimizerBuffer& buffer : optimizer->buffers())
      bytes += static_cast<int64_t>(buffer.values.nbytes());
    return bytes;
  };
  for (const auto& [type, name] : enum_names(OptimizerType{})) {
    config.optimizer.type = type;
    EXPECT_GT(kept(), 0) << name;
    EXPECT_EQ(plan_memory(config, {at::kFloat}, 128).optimizer, kept()) << name;
  }
  // NorMuon has a number more for each output neuron.
  config.optimizer.type = OptimizerType::kMuon;
  const int64_t muon = kept();
  config.optimizer.normuon = true;
  int64_t rows = 0;
  const ParameterLayout layout(config.model, 50);
  for (const ParameterSpec& spec : layout.parameters())
    if (spec.name.ends_with("_proj.weight")) rows += spec.shape[0];
  EXPECT_EQ(kept(), muon + 4 * rows);
  EXPECT_EQ(plan_memory(config, {at::kFloat}, 128).optimizer, kept());
}

}  // namespace
}  // namespace lmtrain
