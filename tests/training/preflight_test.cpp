// The errors and the warnings before a run.
#include "training/preflight.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/text.h"
#include "batching/test_corpus.h"
#include "device/device.h"
#include "distributed/divided_config.h"
#include "tokenizer/tokenizer_json_files.h"
#include "training/memory_plan.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

// ---- Errors ----

// Returns the message with which a check refuses so many processes; empty where it allows them.
std::string refusal_of(const std::function<void(int)>& check, int num_processes) {
  try {
    check(num_processes);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
}

TEST(PreflightErrors, ExactSumsWantAPowerOfTwoUpToTheParts) {
  Config config;
  config.parallel.parts = 4;
  const auto check = [&](int num_processes) {
    require_preflight(PreflightStage::kSettings,
                      {.config = config, .num_processes = num_processes});
  };
  config.parallel.sum = ParallelSum::kFast;
  for (const int count : {1, 2, 3, 8}) EXPECT_EQ(refusal_of(check, count), "") << count;
  config.parallel.sum = ParallelSum::kExact;
  for (const int count : {1, 2, 4}) EXPECT_EQ(refusal_of(check, count), "") << count;
  for (const int count : {3, 8}) {
    EXPECT_NE(refusal_of(check, count).find("a power of two, up to parallel.parts (4)"),
              std::string::npos)
        << count;
  }
}

TEST(PreflightErrors, EachSettingThatDividedStateRulesOutIsNamed) {
  Config possible = testing::divided_config();
  possible.device = "cpu";
  possible.model.activation_checkpointing = true;
  possible.parallel.shard = ParallelShard::kParameters;
  struct Case {
    ParallelShard shard;
    std::function<void(Config&)> change;
    const char* message;
  };
  const Case cases[] = {
      {ParallelShard::kParameters, [](Config& c) { c.model.activation_checkpointing = false; },
       "set model.activation_checkpointing to true"},
      {ParallelShard::kParameters, [](Config& c) { c.log.samples.emplace(); },
       "leave log.samples out"},
      {ParallelShard::kParameters, [](Config& c) { c.eval.tasks = "tasks"; },
       "leave eval.tasks out"},
  };
  const auto check_of = [](const Config& config) {
    return [&config](int num_processes) {
      require_preflight(PreflightStage::kDevice,
                        {.config = config, .num_processes = num_processes});
    };
  };
  EXPECT_EQ(refusal_of(check_of(possible), 2), "");
  for (const Case& tried : cases) {
    Config config = possible;
    config.parallel.shard = tried.shard;
    tried.change(config);
    EXPECT_NE(refusal_of(check_of(config), 2).find(tried.message), std::string::npos)
        << tried.message;
    EXPECT_EQ(refusal_of(check_of(config), 1), "") << "one process divides nothing";
    config.parallel.shard = ParallelShard::kNone;
    EXPECT_EQ(refusal_of(check_of(config), 2), "") << tried.message;
  }
}

// ---- Warnings ----

// 40 documents of 101 tokens: 4,000 targets an epoch.
class PreflightWarnings : public ::testing::Test {
 protected:
  PreflightWarnings() {
    config.data.train = {{"/corpus", 1.0}};
    config.sequence.max_length = 64;
    config.sequence.min_length = 8;
    config.batch.tokens = 256;
    config.train.tokens = 40'000;
    config.eval.tokens = 1000;
    config.eval.every = {10, TrainingDuration::Unit::kSteps};
    config.checkpoint.every = {10, TrainingDuration::Unit::kSteps};
    config.checkpoint.keep_best = 0;
  }

  BatchOrder order() const {
    return BatchOrder({.shard = shard_,
                       .sources = runs,
                       .fingerprint = "corpus",
                       .sequence = config.sequence,
                       .data = config.data,
                       .data_seed = 1,
                       .batch_tokens = config.batch.tokens,
                       .run = run_length(config.train)});
  }
  std::vector<std::string> warnings(bool has_eval = true) const {
    return preflight_warnings(config, order(),
                              has_eval ? std::optional(eval_targets) : std::nullopt);
  }
  // Exactly one, with this in it.
  void expect(const std::string& part) const {
    const std::vector<std::string> found = warnings();
    ASSERT_EQ(found.size(), 1U) << join(found, "\n");
    EXPECT_NE(found[0].find(part), std::string::npos) << found[0];
  }

  int64_t eval_targets = 1000;
  TokenShard shard_ = make_shard(std::vector<int64_t>(40, 101));
  std::vector<SourceRun> runs = {{0, 0}};
  Config config;
};

TEST(ResumeMemory, AResumeThatRank0CannotReadIsForetold) {
  Config config = testing::divided_config();
  config.device = "cpu";
  config.precision = PrecisionSetting::kFp32;
  config.parallel.shard = ParallelShard::kParameters;
  const auto masters = static_cast<uint64_t>(plan_memory(config, precision_of(config), 0).weights);
  EXPECT_TRUE(resume_memory_warnings(config, std::nullopt, 4).empty());
  EXPECT_TRUE(resume_memory_warnings(config, masters, 4).empty());
  EXPECT_TRUE(resume_memory_warnings(config, 0, 1).empty());
  const std::vector<std::string> found = resume_memory_warnings(config, masters - 1, 4);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("this run could not be resumed here"), std::string::npos) << found[0];
}

TEST_F(PreflightWarnings, AnOrdinaryRunHasNone) {
  EXPECT_EQ(warnings(), std::vector<std::string>());
  for (const Batching batching : {Batching::kPad, Batching::kPack, Batching::kConcat}) {
    config.sequence.batching = batching;
    config.sequence.max_length = batching == Batching::kPad ? 128 : 64;
    config.sequence.schedule.type = LengthScheduleType::kConstant;
    EXPECT_EQ(warnings(), std::vector<std::string>()) << name_of(batching);
  }
}

TEST_F(PreflightWarnings, ATokenizerThatTransformersOpensAsAnother) {
  config.model.model_type = ModelArchitecture::kQwen2;
  expect("the one that is trained here");
  for (const char* other : {"llama3", "gpt2"}) {
    config.tokenizer.model = (kTokenizerJsons / (std::string(other) + ".json")).string();
    expect(*config.tokenizer.model);
  }
  config.tokenizer.model = (kTokenizerJsons / "qwen2.json").string();
  EXPECT_EQ(warnings(), std::vector<std::string>());
  config.tokenizer.model.reset();
  for (const ModelArchitecture type :
       {ModelArchitecture::kLlama, ModelArchitecture::kQwen3, ModelArchitecture::kMistral}) {
    config.model.model_type = type;
    EXPECT_EQ(warnings(), std::vector<std::string>()) << name_of(type);
  }
}

TEST_F(PreflightWarnings, AnEvaluationOfOneLongDocument) {
  eval_targets = 2000;
  EXPECT_EQ(warnings(), std::vector<std::string>());
  eval_targets = 83'500;
  expect("83.5K tokens in place of eval.tokens 1.00K");
}

TEST_F(PreflightWarnings, ManyPassesNameTheSettingAndTheText) {
  config.train.tokens = 4'000 * 19;
  EXPECT_EQ(warnings(), std::vector<std::string>());
  config.train.tokens = 4'000 * 151;
  expect("train.tokens 604K goes 151 times over the text of data.train (4.00K tokens)");
  config.train.tokens.reset();
  config.train.steps = 400'000 / 256;
  expect(str("train.steps ", 400'000 / 256, " goes "));
  config.train.steps.reset();
  config.train.epochs = 151;  // asked for by its number
  EXPECT_EQ(warnings(), std::vector<std::string>());
}

TEST_F(PreflightWarnings, AndTheSourceOfAMixture) {
  config.data.train = {{"/much", 1.0}, {"/little", 30.0}};
  runs = {{0, 0}, {39, 1}};
  config.train.tokens = 10'000;
  expect("train.tokens 10.0K goes over /data/train/1 (\"/little\", weight 30, 100 tokens) 4");
  const std::vector<std::string> found = warnings();
  EXPECT_EQ(found[0].find("/much"), std::string::npos) << found[0];
}

TEST_F(PreflightWarnings, ASourceWithoutADocument) {
  config.data.train = {{"/text", 1.0}, {"/empty", 1.0}};
  expect("/data/train/1 (\"/empty\") gives no document");
}

TEST_F(PreflightWarnings, ABatchLargerThanTheText) {
  config.batch.tokens = 8192;
  config.eval.every = config.checkpoint.every = {1, TrainingDuration::Unit::kSteps};
  expect(
      "batch.tokens 8192 is more than all of data.train (4000 tokens): each step sees the same "
      "text 2.0 times");
}

TEST_F(PreflightWarnings, LengthsThatNoDocumentHas) {
  config.sequence.max_length = 1024;
  config.batch.tokens = 1024;
  expect("sequence.max_length 1024: the longest rows have 64");
  config.sequence.batching = Batching::kPack;
  config.sequence.schedule.type = LengthScheduleType::kConstant;
  EXPECT_EQ(warnings(), std::vector<std::string>());
}

TEST_F(PreflightWarnings, ACapThatTheRunDoesNotOutgrow) {
  config.sequence.schedule.type = LengthScheduleType::kLinear;
  EXPECT_EQ(warnings(), std::vector<std::string>());  // 100 %
  for (const auto& [duration, text] :
       {std::pair{TrainingDuration{1000, TrainingDuration::Unit::kSteps}, "duration 1000 steps"},
        std::pair{TrainingDuration{11, TrainingDuration::Unit::kEpochs}, "duration 11 epochs"}}) {
    config.sequence.schedule.duration = duration;
    expect(str("sequence.schedule.", text,
               " is longer than the run (train.tokens 40.0K): no row "
               "ever has max_length 64"));
  }
  config.sequence.schedule.duration = {9, TrainingDuration::Unit::kEpochs};
  EXPECT_EQ(warnings(), std::vector<std::string>());
  config.sequence.schedule.type = LengthScheduleType::kStep;
  config.sequence.schedule.lengths = {8, 32};
  config.sequence.schedule.boundaries = {{10, TrainingDuration::Unit::kPercent},
                                         {90'000, TrainingDuration::Unit::kTokens}};
  expect("sequence.schedule.boundaries 90K is longer");
}

TEST_F(PreflightWarnings, AWarmUpOrDecayThatFillsTheRun) {
  config.lr_schedule.warmup = {1000, TrainingDuration::Unit::kSteps};
  expect("lr_schedule.warmup 1000 steps is as long as the run (train.tokens 40.0K)");
  config.lr_schedule.warmup = {1, TrainingDuration::Unit::kPercent};
  config.lr_schedule.type = LrScheduleType::kWsd;
  EXPECT_EQ(warnings(), std::vector<std::string>());
  config.lr_schedule.decay = {50'000, TrainingDuration::Unit::kTokens};
  expect("lr_schedule.decay 50K is longer than what follows the warm-up");
}

TEST_F(PreflightWarnings, WhatFallsDueAfterTheRun) {
  config.eval.every = {500, TrainingDuration::Unit::kSteps};
  expect("eval.every 500 steps is longer than the run (train.tokens 40.0K)");
  EXPECT_EQ(warnings(/*has_eval=*/false), std::vector<std::string>());
  config.eval.every = {0, TrainingDuration::Unit::kSteps};
  config.checkpoint.every = {1'000'000, TrainingDuration::Unit::kTokens};
  expect("checkpoint.every 1M is longer than the run");
  for (const TrainingDuration said : {TrainingDuration{0, TrainingDuration::Unit::kSteps},
                                      TrainingDuration{100, TrainingDuration::Unit::kPercent},
                                      TrainingDuration{3600, TrainingDuration::Unit::kSeconds}}) {
    config.checkpoint.every = said;
    EXPECT_EQ(warnings(), std::vector<std::string>());
  }
  config.checkpoint.every = {1000, TrainingDuration::Unit::kEpochs};
  expect("checkpoint.every 1000 epochs is longer than the run");
  config.checkpoint.keep_every = {10, TrainingDuration::Unit::kPercent};  // saves on the way
  EXPECT_EQ(warnings(), std::vector<std::string>());
}

TEST_F(PreflightWarnings, ACheckpointOfTheLowestLossIsOneOnTheWay) {
  config.checkpoint.every = {1'000'000, TrainingDuration::Unit::kTokens};
  config.checkpoint.keep_best = 1;
  EXPECT_EQ(warnings(), std::vector<std::string>());
  config.eval.every = {0, TrainingDuration::Unit::kSteps};
  expect("checkpoint.every 1M is longer than the run");
}

TEST_F(PreflightWarnings, SettingsThatGoByTheHeldOutLoss) {
  config.checkpoint.keep_best = 2;
  config.eval.early_stop = EarlyStopConfig{.patience = 5};
  config.eval.every = {10, TrainingDuration::Unit::kPercent};
  EXPECT_EQ(warnings(), std::vector<std::string>());
  config.eval.early_stop->patience = 9;
  EXPECT_EQ(warnings(), std::vector<std::string>());
  config.eval.early_stop->patience = 10;
  expect("eval.early_stop.patience 10 is more than the evaluations");
  config.eval.every = {30, TrainingDuration::Unit::kSeconds};
  EXPECT_EQ(warnings(), std::vector<std::string>()) << "how many there are is not known";
  config.checkpoint.keep_best = 1;
  EXPECT_EQ(warnings(/*has_eval=*/false), std::vector<std::string>())
      << "the default asks for nothing";
  config.checkpoint.keep_best = 2;
  const std::vector<std::string> without_text = warnings(/*has_eval=*/false);
  ASSERT_EQ(without_text.size(), 1U);
  EXPECT_NE(without_text[0].find("checkpoint.keep_best 2"), std::string::npos) << without_text[0];
}

// ---- A run that is made longer ----

class RateRiseTest : public PreflightWarnings {
 protected:
  // Returns the warning of the rate; nothing when there is none.
  static std::optional<std::string> rise_from(const Config& before, const Config& after,
                                              const BatchOrder& order,
                                              const ResumePoint& position) {
    for (const std::string& warning : resume_warnings(before, after, order, position))
      if (warning.starts_with("the learning rate rises")) return warning;
    return std::nullopt;
  }
  RateRiseTest() {
    config.train.tokens.reset();
    config.train.steps = 100;
    config.optimizer.lr = 0.01;
    longer = config;
    longer.train.steps = 200;
  }
  std::optional<std::string> rise(int64_t step) {
    longer.lr_schedule = config.lr_schedule;
    return rise_from(config, longer, order(), {step, step * 256});
  }
  Config longer;
};

TEST_F(RateRiseTest, OfADecayThatHadBegunNamesBothRates) {
  // Finished: at the floor, 0.001; half of the longer run: 0.001 + 0.009 (1 + cos πp) / 2 with p =
  // 98/198.
  const std::optional<std::string> finished = rise(100);
  ASSERT_TRUE(finished);
  EXPECT_NE(finished->find("rises at step 101 from 0.001 to 0.00557"), std::string::npos)
      << *finished;
  EXPECT_NE(finished->find("train.steps 100 becomes cosine to train.steps 200"), std::string::npos)
      << *finished;
  EXPECT_NE(finished->find("init_from"), std::string::npos);
  for (const char* type : {"cosine", "linear", "sqrt"}) {
    config.lr_schedule.type = value_named<LrScheduleType>(type).value();
    EXPECT_TRUE(rise(50)) << type;
  }
}

// The decay begins anew, at a peak so much lower that the rate falls.
TEST_F(RateRiseTest, IsNoneWhereALowerPeakMakesTheRateFall) {
  longer.optimizer.lr = 0.001;
  EXPECT_FALSE(rise(100));
  longer.optimizer.lr = 0.008;
  const std::optional<std::string> lower = rise(100);
  ASSERT_TRUE(lower);
  EXPECT_NE(lower->find("rises at step 101 from 0.001 to 0.00446"), std::string::npos) << *lower;
}

TEST_F(RateRiseTest, IsNoneWhereTheRateHolds) {
  config.lr_schedule.type = LrScheduleType::kConstant;
  EXPECT_FALSE(rise(100));
  config.lr_schedule.type = LrScheduleType::kWsd;
  EXPECT_FALSE(rise(70));  // on the plateau
  const std::optional<std::string> late = rise(90);
  ASSERT_TRUE(late);
  EXPECT_NE(late->find("branch from a checkpoint before"), std::string::npos) << *late;
  config.lr_schedule.type = LrScheduleType::kCosine;
  config.lr_schedule.warmup = {50, TrainingDuration::Unit::kSteps};
  EXPECT_FALSE(rise(20));  // warming up, in the same steps
  EXPECT_FALSE(rise_from(config, config, order(), {90, 0}));
  // A new peak is meant.
  Config higher = config;
  higher.optimizer.lr = 0.05;
  EXPECT_FALSE(rise_from(config, higher, order(), {90, 0}));
  higher.optimizer = config.optimizer;
  higher.optimizer.lr_factor = 5;
  EXPECT_FALSE(rise_from(config, higher, order(), {90, 0}));
}

// The unit of the run's length may change.
TEST_F(RateRiseTest, IsFoundInTokensAndEpochs) {
  Config tokens = config;
  tokens.train.steps.reset();
  tokens.train.tokens = 100 * 256;
  Config epochs = tokens;
  epochs.train.tokens.reset();
  epochs.train.epochs = 12.8;  // 4,000 targets each: twice as long
  const BatchOrder plan = order();
  EXPECT_TRUE(rise_from(tokens, epochs, plan, {90, 90 * 256}));
  EXPECT_FALSE(rise_from(epochs, tokens, plan, {90, 90 * 256}));
  epochs.train.epochs = 6.4;
  EXPECT_FALSE(rise_from(tokens, epochs, plan, {90, 90 * 256}));
}

TEST_F(RateRiseTest, ARunThatIsMadeShorterThanItIsEndsAtOnce) {
  Config shorter = config;
  shorter.train.steps = 50;
  const std::vector<std::string> found = resume_warnings(config, shorter, order(), {60, 60 * 256});
  ASSERT_EQ(found.size(), 1U) << join(found, "\n");
  EXPECT_EQ(found[0].find("the run has already trained 60 steps"), 0U) << found[0];
  EXPECT_TRUE(resume_warnings(shorter, shorter, order(), {60, 60 * 256}).empty());
}

}  // namespace
}  // namespace lmtrain
