#include "config/overrides.h"

#include <gtest/gtest.h>

#include "config/config_text.h"

namespace lmtrain {
namespace {

TEST(Overrides, TakeJsonOrABareWord) {
  const Config config = parsed(
      "", {"optimizer.lr=3e-4", "device=cpu", "name=\"quoted\"",
           "sequence.schedule={\"type\":\"natural\"}", "data.eval=null", "eval.every=500 steps",
           "batch.tokens=64Ki", "threads=3", "data.train=corpus/**/*.py", "log.tensorboard=false"});
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_EQ(config.device, "cpu");
  EXPECT_EQ(config.name, "quoted");
  EXPECT_EQ(config.sequence.schedule.type, LengthScheduleType::kNatural);
  EXPECT_EQ(config.eval.every, (TrainingDuration{500, TrainingDuration::Unit::kSteps}));
  EXPECT_EQ(config.batch.tokens, 65536);
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.data.train, (std::vector<DataSourceConfig>{{"corpus/**/*.py", 1.0}}));
  EXPECT_FALSE(config.log.tensorboard);
}

TEST(Overrides, ReplaceWhatTheFileSaysAsAWhole) {
  const std::string file = R"("optimizer": {"lr": 1, "eps": 2}, "seed": 5)";
  EXPECT_EQ(parsed(file, {"seed=6", "seed=7"}).seed, 7);
  EXPECT_EQ(parsed(file, {"optimizer.lr=3"}).optimizer.eps, 2);
  EXPECT_EQ(parsed(file, {"optimizer={\"lr\":3}"}).optimizer.eps, OptimizerConfig().eps);
}

TEST(Overrides, ReachItemsOfLists) {
  EXPECT_EQ(parsed("", {"data.train.0=other"}).data.train[0].path, "other");
  const Config config = parse_config(R"({"data": {"train": ["a", {"path": "b"}]}})", "r.json",
                                     {"data.train.1.weight=2"});
  EXPECT_EQ(config.data.train[1].weight, 2);
}

TEST(Overrides, OneLengthOfTheRunClearsTheOthers) {
  const std::string file = R"("train": {"epochs": 2})";
  const TrainConfig steps = parsed(file, {"train.steps=10"}).train;
  EXPECT_EQ(steps.steps, 10);
  EXPECT_FALSE(steps.tokens || steps.epochs);
  const TrainConfig tokens = parsed(file, {"train.steps=null", "train.tokens=1M"}).train;
  EXPECT_EQ(tokens.tokens, 1'000'000);
  EXPECT_FALSE(tokens.steps || tokens.epochs);
  EXPECT_EQ(parsed(file, {"train.max_time=2h"}).train.epochs, 2);
}

TEST(Overrides, TwoLengthsOfTheRunAreRefused) {
  const auto problems = problems_of(config_text(), {"train.tokens=1M", "seed=1", "train.steps=10"});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0],
            "--set train.tokens=1M and --set train.steps=10: both say how long the run is; give "
            "one of them");
  // The same one twice: the later counts, as for every setting.
  EXPECT_EQ(parsed("", {"train.steps=10", "train.steps=20"}).train.steps, 20);
}

TEST(Overrides, ErrorsNameTheOverride) {
  const std::pair<const char*, const char*> kCases[] = {
      {"optimizer.lr=fast", "--set optimizer.lr=fast: /optimizer/lr: \"fast\" is not a number"},
      {"optimzer.lr=1", "--set optimzer.lr=1: /optimzer: unknown key; did you mean \"optimizer\"?"},
      {"lr=1", "--set lr=1: /lr: unknown key; did you mean \"optimizer.lr\"?"},
      {"seed", "--set seed: expected key=value"},
      {"=5", "--set =5: expected key=value"},
      {"a..b=5", "--set a..b=5: expected key=value"},
      {"data.train=[\"a\",]", "--set data.train=[\"a\",]: a comma before \"]\""},
      {"seed=1e999", "--set seed=1e999: /seed: 1e999 is too large"},
      {"seed={\"a\":1,\"a\":2}", "--set seed={\"a\":1,\"a\":2}: /a: key stands twice"},
      {"data.train.7=x", "--set data.train.7=x: /data/train: [\"corpus\"] has no \"7\""},
      {"data.train.0.weight=2", "--set data.train.0.weight=2: /data/train/0: \"corpus\" has no"},
      {"a\nb=1", "--set a\\nb=1: /a\\nb: unknown key"},
      {"name=\xFF", "--set (not UTF-8): is not UTF-8"},
      {"model.rope_scaling.factor=8", "--set model.rope_scaling.factor=8: /model/rope_scaling: "},
  };
  for (const auto& [override, expected] : kCases) {
    const std::vector<std::string> problems = problems_of(config_text(), {override});
    ASSERT_EQ(problems.size(), 1U) << override;
    EXPECT_TRUE(problems[0].starts_with(expected)) << problems[0];
  }
}

TEST(Overrides, DeepKeysDoNotExhaustTheStack) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  EXPECT_EQ(problems_of(config_text(), {key + "=1"}).size(), 1U);
}

}  // namespace
}  // namespace lmtrain
