// Micro-batches that memory holds: by the plan, by trial, and when an allocation fails in the
// middle of a run.
#include "training/micro_batch_limits.h"

#include <c10/core/CPUAllocator.h>

#include "base/text.h"
#include "ops/operators.h"
#include "support/operator_calls.h"
#include "support/pooled_memory.h"
#include "support/tensors.h"
#include "training/memory_plan.h"
#include "training/step.h"
#include "training/tiny_model.h"
#include "training/tiny_run.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::Json;
using testing::kTinyLength;
using testing::kTinyVocabulary;
using testing::random_ids;
using testing::same_bits;
using testing::TinyModel;
using testing::TinyRun;

Config tiny_config(int64_t tokens, int64_t micro_tokens) {
  Config config;
  config.device = "cpu";
  config.precision = PrecisionSetting::kFp32;
  config.model = testing::tiny_model_config();
  config.sequence.max_length = kTinyLength;
  config.batch = {tokens, micro_tokens};
  config.checkpoint.async = false;
  return config;
}

void expect_none(const MicroBatchReduction& lowered) {
  ADD_FAILURE() << lowered.length << lowered.reason;
}

// libtorch's CPU allocator, but that it refuses what is above `limit` bytes; a GPU's or a limited
// process's shortage in small. Allocations so far stay as they are.
class RefusesAbove : public c10::Allocator {
 public:
  explicit RefusesAbove(size_t limit) : limit_(limit), usual_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, /*priority=*/1);
  }
  ~RefusesAbove() override { c10::SetCPUAllocator(usual_, /*priority=*/1); }
  RefusesAbove(const RefusesAbove&) = delete;
  RefusesAbove& operator=(const RefusesAbove&) = delete;

  c10::DataPtr allocate(size_t size) override {
    TORCH_CHECK(size <= limit_,
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", size,
                " bytes. Error code 12 (Cannot allocate memory)");
    return usual_->allocate(size);
  }
  c10::DeleterFnPtr raw_deleter() const override { return usual_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }

 private:
  size_t limit_;
  c10::Allocator* usual_;
};

TEST(MicroBatchLimits, RowsAreThoseOfTheConfigUnlessLowered) {
  const Config config = tiny_config(1024, 256);
  MicroBatchLimits fit;
  EXPECT_EQ(micro_rows(config, fit, 16), 16);
  EXPECT_EQ(micro_rows(config, fit, 64), 4);
  EXPECT_EQ(micro_rows(config, fit, 512), 1);
  const MicroBatchReduction lowered = reduce_micro_rows(config, fit, 16, "why");
  EXPECT_EQ(lowered.rows_before, 16);
  EXPECT_EQ(lowered.rows, 8);
  EXPECT_EQ(lowered.reason, "why");
  EXPECT_EQ(micro_rows(config, fit, 16), 8);
  EXPECT_EQ(micro_rows(config, fit, 64), 4);  // another length
  EXPECT_EQ(fit, (MicroBatchLimits{256, {{16, 8}}}));
}

// What the plan has for `positions`.
int64_t activations(const Config& config, int64_t positions) {
  return plan_memory(config, {at::kFloat}, positions).of_positions();
}

TEST(MicroBatchLimits, ByThePlan) {
  const Config config = tiny_config(1024, 256);
  const int64_t rest = plan_memory(config, {at::kFloat}, 1).micro_gradient;
  const auto room = [&](double positions) {
    return static_cast<uint64_t>(static_cast<double>(rest) +
                                 positions * static_cast<double>(activations(config, 1)));
  };
  MicroBatchLimits fit;
  fit_to_plan(config, {16, 32, 64}, room(256 * 1.5) + 1, fit, expect_none, 1);
  EXPECT_EQ(fit, MicroBatchLimits{});
  // For 100 positions: 4 of 16 rows, 2 of 8, 1 of 4.
  std::vector<int64_t> lengths;
  fit_to_plan(
      config, {16, 32, 64}, room(100 * 1.5), fit,
      [&](const MicroBatchReduction& lowered) {
        lengths.push_back(lowered.length);
        EXPECT_EQ(lowered.rows * lowered.length, 64);
        EXPECT_EQ(lowered.rows_before * lowered.length, 256);
        EXPECT_NE(lowered.reason.find("of memory available"), std::string::npos);
      },
      1);
  EXPECT_EQ(lengths, (std::vector<int64_t>{16, 32, 64}));
  EXPECT_EQ(fit, (MicroBatchLimits{256, {{16, 4}, {32, 2}, {64, 1}}}));
  // Nothing is raised again, and a row that may just fit is tried.
  fit_to_plan(config, {16, 32, 64}, room(1e6), fit, expect_none, 1);
  fit_to_plan(config, {64}, room(65), fit, expect_none, 1);
  EXPECT_EQ(fit.rows.at(64), 1);
}

TEST(MicroBatchLimits, ThePlanOfOneOfAMillionProcesses) {
  const Config config = tiny_config(1024, 256);
  const auto state = [&](int num_processes) {
    return plan_memory(config, {at::kFloat}, 0, num_processes).optimizer;
  };
  EXPECT_GT(state(1 << 20), 0);
  EXPECT_LE(state(1 << 20), state(2));
  EXPECT_LT(state(2), state(1));
}

TEST(MicroBatchLimits, OneRowThatCannotFitIsAnErrorThatSaysWhatTakesWhat) {
  Config config = tiny_config(1 << 20, 1 << 20);
  config.sequence.max_length = 1 << 20;
  MicroBatchLimits fit;
  const auto message = [&] {
    return error_of(ErrorKind::kMemory,
                    [&] { fit_to_plan(config, {1 << 20}, 100 << 20, fit, expect_none, 1); });
  };
  const std::string plain = message();
  for (const char* part : {"one row of length 1048576", "100.0 MiB of memory available", "weights ",
                           "gradient ", "optimizer state ", "activations 1", "logits 200.0 MiB",
                           "set model.activation_checkpointing to true"})
    EXPECT_NE(plain.find(part), std::string::npos) << part << "\n" << plain;
  config.model.activation_checkpointing = true;
  EXPECT_NE(message().find("lower sequence.max_length (now 1048576)"), std::string::npos);
}

TEST(MicroBatchLimits, WeightsThatCannotFitAreRefusedBeforeTheyAreMade) {
  Config config = tiny_config(1024, 256);
  const MemoryPlan plan = plan_memory(config, {at::kFloat}, 0);
  const auto fixed = static_cast<uint64_t>(plan.weights + plan.gradient + plan.optimizer);
  require_memory(config, std::nullopt, 1);
  require_memory(config, fixed, 1);
  // A row takes more than what is fixed, and that is said too before anything is made.
  config.checkpoint.async = false;
  const MemoryPlan row = plan_memory(config, {at::kFloat}, config.sequence.max_length);
  const auto with_a_row = static_cast<uint64_t>(row.device_total());
  require_longest_row(config, std::nullopt, 1);
  require_longest_row(config, with_a_row, 1);
  EXPECT_NE(error_of(ErrorKind::kMemory, [&] { require_longest_row(config, with_a_row - 1, 1); })
                .find(at::str("one row of length ", config.sequence.max_length)),
            std::string::npos);
  const std::string message =
      error_of(ErrorKind::kMemory, [&] { require_memory(config, fixed - 1, 1); });
  EXPECT_NE(message.find("lower model.hidden_size (now 16)"), std::string::npos) << message;
  config.checkpoint.async = true;
  config.optimizer.type = OptimizerType::kSoap;
  EXPECT_NE(explain_memory(config, 16, 1).find("set checkpoint.async to false"), std::string::npos)
      << explain_memory(config, 16, 1);
  // What is rounded is held without it too, and then there is nothing to set.
  config.checkpoint.dtype = CheckpointDType::kBf16;
  config.checkpoint.async = false;
  EXPECT_NE(explain_memory(config, 16, 1).find("copy for checkpoints"), std::string::npos);
  EXPECT_EQ(explain_memory(config, 16, 1).find("checkpoint.async"), std::string::npos);
  // The copy comes after the beginning.
  EXPECT_EQ(error_of(ErrorKind::kMemory, [&] { require_memory(config, 1, 1); }).find("copy for"),
            std::string::npos);
}

// Rank 0 holds all masters while it reads them, however many processes divide them.
TEST(MicroBatchLimits, WeightsThatCannotBeReadAreRefusedBeforeTheyAre) {
  Config config = tiny_config(1024, 256);
  config.parallel.shard = ParallelShard::kParameters;
  config.model.activation_checkpointing = true;
  const auto masters = static_cast<uint64_t>(plan_memory(config, {at::kFloat}, 0).weights);
  for (const int count : {2, 8}) {
    require_memory_to_read(config, std::nullopt, count);
    require_memory_to_read(config, masters, count);
    const std::string message =
        error_of(ErrorKind::kMemory, [&] { require_memory_to_read(config, masters - 1, count); });
    EXPECT_NE(message.find("rank 0 reads all of them into host memory"), std::string::npos);
  }
  require_memory_to_read(config, 0, 1);
  config.parallel.shard = ParallelShard::kOptimizer;
  require_memory_to_read(config, 0, 2);
}

Batch random_batch() {
  Batch batch;
  batch.rows = 4;
  batch.length = kTinyLength;
  batch.inputs = random_ids(batch.rows * batch.length, 1);
  batch.targets = random_ids(batch.rows * batch.length, 2);
  batch.num_targets = batch.rows * batch.length;
  return batch;
}

TEST(MicroBatchLimits, ATrialThatFitsChangesNoBitOfWhatFollows) {
  for (const Batching batching : {Batching::kBucket, Batching::kPack}) {
    Config config = tiny_config(128, 64);
    config.sequence.batching = batching;
    TinyModel tried;
    TinyModel untried;
    const at::Tensor grad = tried.new_gradient();
    const at::Tensor expected = untried.new_gradient();
    MicroBatchLimits fit;
    fit_by_trial(config, tried.llama, {8, kTinyLength}, grad, fit, expect_none,
                 TrialShapes::kLongest);
    EXPECT_EQ(fit, MicroBatchLimits{});
    EXPECT_TRUE(same_bits(tried.parameters.master(), untried.parameters.master()));
    const double loss = accumulate_batch(tried.llama, random_batch(), 32, grad);
    EXPECT_EQ(loss, accumulate_batch(untried.llama, random_batch(), 32, expected));
    EXPECT_TRUE(same_bits(grad, expected));
    EXPECT_GT(grad.abs().max().item<double>(), 0);
  }
}

TEST(MicroBatchLimits, ATrialLowersUntilItFits) {
  const Config config = tiny_config(32768, 16384);
  TinyModel model;
  const at::Tensor grad = model.new_gradient();
  MicroBatchLimits fit;
  std::vector<int64_t> rows;
  const RefusesAbove limit(size_t{4800} * 50 * 4);  // logits of 4,800 positions
  fit_by_trial(
      config, model.llama, {kTinyLength}, grad, fit,
      [&](const MicroBatchReduction& lowered) {
        rows.push_back(lowered.rows);
        EXPECT_NE(lowered.reason.find("out of memory"), std::string::npos) << lowered.reason;
        EXPECT_EQ(lowered.reason.find("micro_tokens"), std::string::npos) << lowered.reason;
      },
      TrialShapes::kLongest);
  EXPECT_EQ(rows, (std::vector<int64_t>{512, 256}));
  const RefusesAbove tighter(size_t{10} * 50 * 4);
  const std::string message = error_of(ErrorKind::kMemory, [&] {
    fit_by_trial(
        config, model.llama, {kTinyLength}, grad, fit, [](const MicroBatchReduction&) {},
        TrialShapes::kLongest);
  });
  EXPECT_NE(message.find("one row of length 16"), std::string::npos) << message;
}

// The setting is one for the process: each test leaves it as it was.
class KeepsSwigluValue {
 public:
  explicit KeepsSwigluValue(bool keeps) { keep_swiglu_value(keeps); }
  ~KeepsSwigluValue() { keep_swiglu_value(false); }
  KeepsSwigluValue(const KeepsSwigluValue&) = delete;
  KeepsSwigluValue& operator=(const KeepsSwigluValue&) = delete;
};

TEST(MicroBatchLimits, WithTwiceTheMemoryOfThePlanNoTrialIsNeeded) {
  const KeepsSwigluValue scope(false);
  const Config config = tiny_config(1024, 256);
  const MemoryPlan plan = plan_memory(config, {at::kFloat}, 256);
  const double needed =
      1.5 * static_cast<double>(plan.of_positions()) + static_cast<double>(plan.micro_gradient);
  const auto twice = static_cast<uint64_t>(2 * needed) + 1;
  EXPECT_TRUE(fits_with_ease(config, {16, 64}, twice, {}));
  EXPECT_FALSE(fits_with_ease(config, {16, 64}, twice - 3, {}));
  // Of fewer rows it does.
  EXPECT_TRUE(fits_with_ease(config, {16, 64}, twice - 3, {256, {{16, 8}, {64, 2}}}));
  keep_swiglu_value(true);
  EXPECT_FALSE(fits_with_ease(config, {16, 64}, twice, {}));
  const int64_t value = swiglu_value_bytes(config, {at::kFloat}, 256);
  EXPECT_TRUE(fits_with_ease(config, {16, 64}, twice + 2 * static_cast<uint64_t>(value), {}));
}

TEST(MicroBatchLimits, SwigluKeepsItsValueWhereThatFits) {
  const KeepsSwigluValue scope(false);
  Config config = tiny_config(1024, 256);
  const MemoryPlan plan = plan_memory(config, {at::kFloat}, 256);
  const int64_t value = swiglu_value_bytes(config, {at::kFloat}, 256);
  EXPECT_EQ(value, 256 * 4 * config.model.num_hidden_layers * config.model.intermediate_size);
  const double needed = 1.5 * static_cast<double>(plan.of_positions()) +
                        static_cast<double>(plan.micro_gradient + value);
  const auto enough = static_cast<uint64_t>(needed / 0.9) + 1;
  keep_swiglu_value_if_it_fits(config, {16, 64}, enough, {});
  EXPECT_TRUE(keeps_swiglu_value());
  keep_swiglu_value_if_it_fits(config, {16, 64}, enough - 2, {});
  EXPECT_FALSE(keeps_swiglu_value());
  // Of fewer rows it fits.
  keep_swiglu_value_if_it_fits(config, {16, 64}, enough - 2, {256, {{16, 8}, {64, 2}}});
  EXPECT_TRUE(keeps_swiglu_value());
  config.model.activation_checkpointing = true;
  EXPECT_EQ(swiglu_value_bytes(config, {at::kFloat}, 256), value / config.model.num_hidden_layers);
  EXPECT_EQ(swiglu_value_bytes(config, {at::kBFloat16, /*fp8=*/true}, 256), 0);
}

// The memory of a GPU that holds a micro-batch, and not what is only kept to be fast.
TEST(MicroBatchLimits, WhatIsKeptIsGivenUpBeforeRows) {
  const testing::Threads one(
      1);  // what several threads have allocated at once depends on their timing
  const Config config = tiny_config(1024, 1024);
  TinyModel model;
  const at::Tensor grad = model.new_gradient();
  MicroBatchLimits fit;
  const auto try_it = [&](const ReportReduction& report) {
    fit_by_trial(config, model.llama, {kTinyLength}, grad, fit, report, TrialShapes::kLongest);
  };
  try_it(expect_none);  // what is allocated once is there
  const auto peak = [&](bool keeps) {
    const KeepsSwigluValue scope(keeps);
    const testing::PooledMemory memory;
    try_it(expect_none);
    EXPECT_EQ(keeps_swiglu_value(), keeps);
    return memory.peak();
  };
  const size_t computed_again = peak(false), kept = peak(true);
  EXPECT_EQ(kept - computed_again,
            static_cast<size_t>(swiglu_value_bytes(config, {at::kFloat}, 1024)));
  {
    const KeepsSwigluValue scope(true);
    const testing::PooledMemory memory(kept - 1);
    try_it(expect_none);
    EXPECT_FALSE(keeps_swiglu_value());
    EXPECT_EQ(fit, MicroBatchLimits{});
  }
  const KeepsSwigluValue scope(true);
  const testing::PooledMemory memory(computed_again - 1);
  try_it([](const MicroBatchReduction&) { EXPECT_FALSE(keeps_swiglu_value()); });
  EXPECT_EQ(fit, (MicroBatchLimits{1024, {{kTinyLength, 32}}}));
}

TEST(MicroBatchLimits, OtherErrorsOfATrialPassThrough) {
  TinyModel model;
  MicroBatchLimits fit;
  const Config config = tiny_config(128, 64);
  const std::string message = error_of(ErrorKind::kInternal, [&] {
    fit_by_trial(config, model.llama, {2 * kTinyLength}, model.new_gradient(), fit, expect_none,
                 TrialShapes::kLongest);
  });
  EXPECT_EQ(message.find("memory"), std::string::npos) << message;
}

// Sizes of the micro-batches that went through the model while `work` ran.
std::vector<std::vector<int64_t>> micro_batches_of(const std::function<void()>& work) {
  const testing::OperatorCalls calls("lm::embedding");
  work();
  std::vector<std::vector<int64_t>> sizes;
  for (const auto& inputs : calls.inputs()) sizes.push_back(inputs.at(0).toTensor().sizes().vec());
  return sizes;
}

// On a GPU: the smallest micro-batch first, then each that a step will have, the longest first. Of
// 16 rows of length 8, micro-batches of 6 leave 4.
TEST(MicroBatchLimits, ATrialOfAllShapesHasThoseThatAStepWillHave) {
  Config config = tiny_config(128, 48);
  TinyModel model;
  const at::Tensor grad = model.new_gradient();
  MicroBatchLimits fit;
  const auto tried = [&](TrialShapes shapes) {
    return micro_batches_of([&] {
      fit_by_trial(config, model.llama, {8, kTinyLength}, grad, fit, expect_none, shapes);
    });
  };
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(tried(TrialShapes::kAll), (Sizes{{1, 8}, {3, 16}, {2, 16}, {6, 8}, {4, 8}}));
  EXPECT_EQ(tried(TrialShapes::kLongest), (Sizes{{3, 16}}));
}

// A run in which every length turns out too large goes on with fewer rows, and a resume takes the
// same without having to find out.
TEST(MicroBatchLimits, ARunGoesOnWithSmallerMicroBatchesAndItsResumesToo) {
  const TinyRun made(Json{{"train", {{"steps", 20}}}});
  const int64_t vocab_size = *made.config.model.vocab_size;
  {
    Trainer trainer = made.trainer();
    // Above the embedding's gradient, 16 wide; below the logits of all 128 positions.
    const RefusesAbove limit(static_cast<size_t>(100 * vocab_size * 4));
    EXPECT_EQ(trainer.run().exit_code, 0);
  }
  const std::vector<Json> lowered = made.events("oom_fit");
  ASSERT_EQ(lowered.size(), 3U);
  EXPECT_EQ(lowered[0].at("seq_len"), 64);  // tried before the first step
  EXPECT_EQ(lowered[0].at("step"), 0);
  int64_t last = 0;
  for (const Json& event : lowered) {
    EXPECT_EQ(event.at("rows_before").get<int64_t>() * event.at("seq_len").get<int64_t>(), 128);
    EXPECT_EQ(event.at("rows").get<int64_t>() * 2, event.at("rows_before").get<int64_t>());
    last = std::max(last, event.at("step").get<int64_t>());
  }
  ASSERT_LT(last, 15);
  EXPECT_EQ(made.state(15).micro.rows, (std::map<int64_t, int64_t>{{16, 4}, {32, 2}, {64, 1}}));
  const std::string expected = made.bytes(20);

  const auto resumed_bytes = [&](const TinyRun& run) {
    std::filesystem::remove_all(run.run.checkpoint(20));
    EXPECT_EQ(run.trainer(15).run().exit_code, 0);
    return run.bytes(20);
  };
  EXPECT_EQ(resumed_bytes(made), expected);
  EXPECT_EQ(made.events("oom_fit").size(), 3U);

  // Of what is kept to be fast no bit and no row depends: it is given up first.
  const TinyRun keeping(Json{{"train", {{"steps", 20}}}});
  const KeepsSwigluValue scope(true);
  {
    Trainer trainer = keeping.trainer();
    const auto keep = [](const Batch&, double&, const at::Tensor&) { keep_swiglu_value(true); };
    const RefusesAbove limit(static_cast<size_t>(100 * vocab_size * 4));
    EXPECT_EQ(trainer.run({.after_backward = keep}).exit_code, 0);
  }
  EXPECT_EQ(keeping.events("oom_fit").size(), 3U);
  EXPECT_EQ(keeping.bytes(20), expected);
}

}  // namespace
}  // namespace lmtrain
