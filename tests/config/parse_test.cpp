#include "config/parse.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/support.h"
#include "config/config_text.h"

namespace lmtrain {
namespace {

TEST(Parse, DefaultsAreTheStructs) {
  Config expected;
  expected.name = "run";
  expected.data.train = {{"corpus", 1.0}};
  EXPECT_EQ(parsed(""), expected);
}

TEST(Parse, NameIsTheStemOfTheFile) {
  EXPECT_EQ(parse_config(config_text(), "configs/tiny.v2.json", {}).name, "tiny.v2");
  EXPECT_EQ(parse_config(config_text(), "x/\xFF.json", {}).name, "run");
}

TEST(Parse, CommentsAreAllowedTrailingCommasAreNot) {
  EXPECT_TRUE(problems_of("/* a */ {\"data\": // b\n{\"train\": [\"c//d\"]}} // e").empty());
  EXPECT_EQ(problems_of("{\"data\": {\"train\": [\"c\"]},}").size(), 1U);
}

TEST(Parse, IntegersMayBeWrittenAsFloats) {
  EXPECT_EQ(parsed(R"("train": {"steps": 1e6})").train.steps, 1'000'000);
  EXPECT_EQ(parsed(R"("seed": 7.0)").seed, 7);
}

TEST(Parse, AutoAndNull) {
  EXPECT_EQ(parsed(R"("threads": "auto")").threads, std::nullopt);
  EXPECT_EQ(parsed(R"("threads": null)").threads, std::nullopt);
  EXPECT_EQ(parsed(R"("threads": 2)").threads, 2);
  EXPECT_EQ(parsed(R"("batch": {"micro_tokens": "auto"})").batch.micro_tokens, std::nullopt);
  EXPECT_EQ(parsed(R"("batch": {"micro_tokens": "4Ki"})").batch.micro_tokens, 4096);
}

TEST(Parse, ALengthOfTheRunReplacesTheDefault) {
  EXPECT_EQ(parsed("").train.tokens, 20'000'000);
  const TrainConfig train = parsed(R"("train": {"epochs": 0.5, "max_time": "90s"})").train;
  EXPECT_EQ(train.tokens, std::nullopt);
  EXPECT_EQ(train.epochs, 0.5);
  EXPECT_EQ(train.max_time, 90);
  EXPECT_EQ(parsed(R"("train": {"steps": 3, "tokens": null, "epochs": null})").train.steps, 3);
}

TEST(Parse, BareNumbersHaveTheUnitOfTheirKey) {
  using Unit = TrainingDuration::Unit;
  const Config config = parsed(
      R"("eval": {"every": 50, "tokens": 5}, "lr_schedule": {"warmup": 7}, "restart": {"tokens": 9},
         "checkpoint": {"every": "30min"}, "log": {"every": 0}, "train": {"max_time": 12.5},
         "tokenizer": {"train": {"sample": 1000}})");
  EXPECT_EQ(config.eval.every, (TrainingDuration{50, Unit::kSteps}));
  EXPECT_EQ(config.eval.tokens, 5);
  EXPECT_EQ(config.lr_schedule.warmup, (TrainingDuration{7, Unit::kSteps}));
  EXPECT_EQ(config.restart.tokens, (TrainingDuration{9, Unit::kTokens}));
  EXPECT_EQ(config.checkpoint.every, (TrainingDuration{1800, Unit::kSeconds}));
  EXPECT_EQ(config.log.every, (TrainingDuration{0, Unit::kSteps}));
  EXPECT_EQ(config.train.max_time, 12.5);
  EXPECT_EQ(config.tokenizer.train.sample, 1000);
}

TEST(Parse, DefaultsFollowTheVariant) {
  using Betas = std::vector<double>;
  EXPECT_EQ(parsed(R"("optimizer": {"type": "lion"})").optimizer.betas, (Betas{0.9, 0.99}));
  EXPECT_EQ(parsed(R"("optimizer": {"type": "soap"})").optimizer.betas, (Betas{0.95, 0.95}));
  EXPECT_EQ(parsed("", {"optimizer.type=ademamix"}).optimizer.betas, (Betas{0.9, 0.999, 0.9999}));
  EXPECT_EQ(parsed(R"("optimizer": {"type": "muon"})").optimizer.betas, (Betas{0.9, 0.95}));
  const OptimizerConfig sgd = parsed("", {"optimizer.type=sgd"}).optimizer;
  EXPECT_EQ(sgd.betas, Betas());
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_EQ(parsed("").optimizer.momentum, 0.95);
  EXPECT_EQ(parsed("", {"optimizer.type=adam"}).optimizer.weight_decay, 0);
  EXPECT_EQ(parsed("", {"optimizer.type=adopt"}).optimizer.eps, 1e-6);
  EXPECT_EQ(parsed(R"("sequence": {"batching": "concat"})").sequence.schedule.type,
            LengthScheduleType::kConstant);
  EXPECT_EQ(parsed(R"("sequence": {"batching": "pad"})").sequence.schedule.type,
            LengthScheduleType::kGrowP2);
  EXPECT_EQ(parsed(R"("model": {"num_attention_heads": 8})").model.num_key_value_heads, 8);
  EXPECT_EQ(parsed(R"("model": {"num_attention_heads": 8, "num_key_value_heads": null})")
                .model.num_key_value_heads,
            8);
}

// What is written out is what a run keeps; read again it is the same.
TEST(Parse, ABaseWidthIsWrittenOutAsGroups) {
  const std::string untied = R"("model": {"hidden_size": 512, "tie_word_embeddings": false}, )";
  const OptimizerConfig scaled = parsed(untied + R"("optimizer": {"lr": 2e-3, "base_width": 128,
                          "groups": [{"pattern": "*o_proj.weight", "lr": 1e-3}]})")
                                     .optimizer;
  const std::vector<OptimizerGroupConfig> expected = {
      {"*o_proj.weight", 1e-3, std::nullopt},
      {"model.layers.*_proj.weight", 5e-4, std::nullopt},
      {"lm_head.weight", 5e-4, std::nullopt}};
  EXPECT_EQ(scaled.groups, expected);
  EXPECT_EQ(scaled.base_width, std::nullopt);
  const std::string shown = show_config(parsed(R"("optimizer": {"lr": 1e-3, "base_width": 128})"));
  EXPECT_NE(shown.find("// optimizer.base_width, run.json:"), std::string::npos) << shown;
  // A run has its groups already.
  try {
    parse_config(config_text(R"("optimizer": {"lr": 1e-3, "base_width": 128})"), "x.json", {},
                 ConfigAuthor::kRun);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("change optimizer.groups"), std::string::npos);
  }
  // The command that began it may be given again.
  const std::string of_run = config_text(
      R"("model": {"hidden_size": 512}, "optimizer": {"lr": 2e-3, "groups": [
           {"pattern": "model.layers.*_proj.weight", "lr": 5e-4}]})");
  const auto again = [&](const std::string& width) {
    return parse_config(of_run, "x.json", {"optimizer.base_width=" + width}, ConfigAuthor::kRun);
  };
  EXPECT_EQ(again("128").optimizer.base_width, std::nullopt);
  EXPECT_EQ(again("128").optimizer.groups.size(), 1U);
  EXPECT_THROW(again("256"), Error);
  const OptimizerConfig tied = parsed(R"("model": {"hidden_size": 512, "tie_word_embeddings": true},
                "optimizer": {"lr": 2e-3, "base_width": 128})")
                                   .optimizer;
  ASSERT_EQ(tied.groups.size(), 1U);
  EXPECT_EQ(tied.groups[0], expected[1]);
  for (const auto& [adjust_lr, rate] : {std::pair{"match_rms_adamw", 1e-3}, {"original", 2e-3}}) {
    const OptimizerConfig muon =
        parsed(untied + R"("optimizer": {"type": "muon", "lr": 2e-3, "base_width": 128,
                            "adjust_lr": ")" +
               adjust_lr + "\"}")
            .optimizer;
    ASSERT_EQ(muon.groups.size(), 2U);
    EXPECT_EQ(muon.groups[0].lr, rate) << adjust_lr;
    EXPECT_EQ(muon.groups[1].lr, 5e-4) << adjust_lr;
  }
  const std::vector<std::string> problems =
      problems_of(config_text(R"("optimizer": {"type": "soap", "lr": 1e-3, "base_width": 128})"));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("how the rate of optimizer.type soap follows the width is not known"),
            std::string::npos)
      << problems[0];
}

TEST(Parse, SourcesAreStringsOrObjects) {
  const Config config = parse_config(
      R"({"data": {"train": ["a", {"path": "b", "weight": 2}], "eval": "c"}})", "r.json", {});
  EXPECT_EQ(config.data.train, (std::vector<DataSourceConfig>{{"a", 1.0}, {"b", 2.0}}));
  EXPECT_EQ(*config.data.eval, (std::vector<DataSourceConfig>{{"c", 1.0}}));
}

TEST(Parse, EvaluationTextMayBeNamedSets) {
  const Config config = parse_config(
      R"({"data": {"train": ["a"], "eval": {"py-3.x": "b/*.py", "Prose_1": ["c", {"path": "d"}]}}})",
      "r.json", {"data.eval.more=[\"e\"]"});
  EXPECT_EQ(*config.data.eval, (std::vector<DataSourceConfig>{{"b/*.py", 1.0, "py-3.x"},
                                                              {"c", 1.0, "Prose_1"},
                                                              {"d", 1.0, "Prose_1"},
                                                              {"e", 1.0, "more"}}));
  // One source, no set.
  EXPECT_EQ(*parsed("", {R"(data.eval={"path": "c", "weight": 2})"}).data.eval,
            (std::vector<DataSourceConfig>{{"c", 2.0}}));
}

TEST(Parse, VariablesInPathsAreExpanded) {
  ::setenv("LMTRAIN_TEST_DIR", "/some where", 1);
  const Config config = parse_config(R"({"data": {"train": ["${LMTRAIN_TEST_DIR}/*.txt"],
      "cache_dir": "a/${LMTRAIN_TEST_DIR}${LMTRAIN_TEST_DIR}", "text_field": "${X}"}})",
                                     "r.json", {});
  EXPECT_EQ(config.data.train[0].path, "/some where/*.txt");
  EXPECT_EQ(config.data.cache_dir, "a//some where/some where");
  EXPECT_EQ(config.data.text_field, "${X}") << "no path";
}

TEST(Parse, APastedLlamaConfigIsAccepted) {
  const Config config = parsed(R"("model": {
    "_name_or_path": "x", "architectures": ["LlamaForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 1, "dtype": "bfloat16", "eos_token_id": [2, 3],
    "hidden_act": "silu", "hidden_size": 512, "max_position_embeddings": 4096, "mlp_bias": false,
    "model_type": "llama", "pad_token_id": null, "pretraining_tp": 1, "rope_theta": 500000.0,
    "rope_scaling": {"type": "llama3", "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 2048},
    "torch_dtype": "bfloat16", "transformers_version": "4.57.6", "use_cache": true})");
  EXPECT_EQ(config.model.hidden_size, 512);
  EXPECT_EQ(config.model.rope_theta, 500000.0);
  EXPECT_EQ(config.model.rope_scaling, (RopeScalingConfig{RopeType::kLlama3, 4.0, 1.0, 4.0, 2048}));
  const Config v5 = parsed(R"("model": {"hidden_size": 512, "rope_parameters": {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 4.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 2048}})");
  EXPECT_EQ(v5.model, config.model);
  EXPECT_EQ(parsed(R"("model": {"rope_scaling": {"rope_type": "default"}})").model.rope_scaling,
            std::nullopt);
  EXPECT_EQ(parsed(R"("model": {"rope_parameters": {"rope_theta": 5}})").model.rope_theta, 5);
}

TEST(Parse, EarlyStopIsAnObjectWithDefaultsOrNull) {
  EXPECT_EQ(parsed("").eval.early_stop, std::nullopt);
  EXPECT_EQ(parsed(R"("eval": {"early_stop": {}})").eval.early_stop, EarlyStopConfig());
  const char* given = R"("eval": {"early_stop": {"patience": 3, "min_delta": 0.25}})";
  EXPECT_EQ(parsed(given).eval.early_stop, (EarlyStopConfig{3, 0.25}));
  EXPECT_EQ(parsed(given, {"eval.early_stop.patience=7"}).eval.early_stop,
            (EarlyStopConfig{7, 0.25}));
  EXPECT_EQ(parsed(given, {"eval.early_stop=null"}).eval.early_stop, std::nullopt);
  EXPECT_EQ(parsed("", {"eval.early_stop.patience=7"}).eval.early_stop, (EarlyStopConfig{7, 0}));
}

TEST(Parse, SamplesHaveOnePromptAtLeast) {
  EXPECT_EQ(parsed("").log.samples, std::nullopt);
  EXPECT_EQ(parsed(R"("log": {"samples": {"prompts": ["a", ""]}})").log.samples,
            (SamplesConfig{{"a", ""}, 64}));
  EXPECT_EQ(parsed("", {R"(log.samples={"prompts":["b"],"max_tokens":8})"}).log.samples,
            (SamplesConfig{{"b"}, 8}));
}

TEST(Parse, OneTextIsAListOfOne) {
  EXPECT_EQ(parsed(R"("log": {"samples": {"prompts": "a"}})").log.samples,
            (SamplesConfig{{"a"}, 64}));
  const Config config =
      parsed(R"("card": {"license": "mit", "language": "en"})", {R"(card.datasets=["a/b", "c"])"});
  using Texts = std::vector<std::string>;
  EXPECT_EQ(config.card, (CardConfig{"mit", Texts{"en"}, Texts{"a/b", "c"}}));
  EXPECT_EQ(parsed(R"("card": {"language": "en"})", {"card.language=null"}).card, CardConfig());
}

TEST(Parse, OriginsSayWhereAKeyStands) {
  const Config config = parsed("\"optimizer\":\n {\"lr\": 1}", {"seed=5"});
  EXPECT_EQ(config.origins.origin("optimizer.lr"), "run.json:3");
  EXPECT_EQ(config.origins.origin("seed"), "--set seed=5");
  EXPECT_EQ(config.origins.origin("optimizer.eps"), "run.json:3") << "the section";
  EXPECT_EQ(config.origins.origin("model.hidden_size"), "run.json:1") << "the file";
  EXPECT_TRUE(config.origins.given("optimizer.lr"));
  EXPECT_FALSE(config.origins.given("optimizer.eps"));
}

TEST(LoadConfig, AMissingFileIsAUsageError) {
  for (const char* path : {"/nowhere/run.json", "/"}) {
    try {
      load_config(path, {});
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_TRUE(std::string(error.what()).starts_with(path)) << error.what();
    }
  }
}

// The text to train on, typed where its config belongs.
TEST(LoadConfig, ATextIsToldFromAConfig) {
  const testing::TemporaryFolder folder;
  const auto problem_of = [&](const std::string& name, const std::string& text) {
    testing::replace_file(folder / name, text);
    return testing::error_of(ErrorKind::kConfig,
                             [&] { load_config((folder / name).string(), {}); });
  };
  const std::string path = (folder / "input.txt").string();
  const std::string of_text = problem_of("input.txt", "\nFirst Citizen:\nBefore we proceed\n");
  EXPECT_EQ(of_text, path +
                         ": is no config, which is a JSON object; it begins with \"First "
                         "Citizen:\". To train on it, write a config that names it, as own.json: "
                         "{ \"data\": { \"train\": \"" +
                         path + "\" } }; then: lmtrain train own.json");
  const std::string line = R"({"text": "a document"})";
  EXPECT_NE(problem_of("data.jsonl", line + "\n" + line).find("is no config"), std::string::npos);
  EXPECT_NE(problem_of("large.txt", "text" + std::string(size_t{17} << 20, ' ')).find("\"text"),
            std::string::npos);
  EXPECT_NE(problem_of("bytes", "PAR1\x15\xFF").find("begins with \"PAR1\\u0015\""),
            std::string::npos);
  // A config with a mistake is none of these.
  for (const char* config : {"{ \"data\": tex }", "// a comment\n{,}", ""})
    EXPECT_EQ(problem_of("config", config).find("is no config"), std::string::npos);
  EXPECT_EQ(problem_of("config.json", "lr: 3").find("is no config"), std::string::npos);
}

// A file damaged anywhere gives an Error or a configuration, nothing else.
TEST(Parse, DamagedFilesNeverCrash) {
  const std::string whole = show_config(parsed(
      R"("optimizer": {"groups": [{"pattern": "*.norm", "lr": 1e-3}]},
         "model": {"rope_scaling": {"rope_type": "llama3"}}, "train": {"max_time": "2h"})"));
  ASSERT_TRUE(problems_of(whole).empty());
  const std::string kBytes = std::string("{}[]\",:/*\\\n0-9eE.+tfn$ \xFF\xC3\x80", 25) + '\0';
  for (uint64_t i = 0; i < 3000; ++i) {
    std::string text = whole;
    const auto draw = [&](uint64_t n, size_t size) {
      return static_cast<size_t>(random_bits(1, RandomStream::kSample, 8 * i + n) % size);
    };
    for (uint64_t change = 0; change <= draw(7, 3); ++change) {
      const size_t at = draw(2 * change, text.size());
      const char byte = kBytes[draw(2 * change + 1, kBytes.size())];
      if (i % 3 == 0) {
        text[at] = byte;
      } else if (i % 3 == 1) {
        text.insert(at, 1, byte);
      } else {
        text.erase(at, 1 + draw(6, 20));
      }
    }
    try {
      parse_config(text, "run.json", {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      for (const std::string& line : lines_of(error.what())) {
        EXPECT_TRUE(line.starts_with("run.json:")) << line;
      }
    }
  }
}

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

TEST(Overrides, ALengthOfTheRunEndsTheHistoryOfLengths) {
  const std::string text =
      R"({"data": {"train": "a.txt"},
          "train": {"tokens": 900, "planned_tokens": [800], "replanned_at": [6]}})";
  const Config kept = parse_config(text, "run.json", {"optimizer.lr=0.001"});
  EXPECT_EQ(kept.train.planned_tokens, (std::vector<int64_t>{800}));
  EXPECT_EQ(kept.train.replanned_at, (std::vector<int64_t>{6}));
  for (const char* length : {"train.tokens=700", "train.steps=7"}) {
    const Config given = parse_config(text, "run.json", {length});
    EXPECT_TRUE(given.train.planned_tokens.empty() && given.train.replanned_at.empty()) << length;
  }
}

TEST(Parse, AHistoryOfLengthsIsWhole) {
  const auto problem = [](const std::string& train) {
    try {
      parse_config(R"({"data": {"train": "a.txt"}, "train": )" + train + "}", "run.json", {});
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(problem(R"({"tokens": 9, "planned_tokens": [8]})").find("as many of each"),
            std::string::npos);
  EXPECT_NE(problem(R"({"steps": 9, "planned_tokens": [8], "replanned_at": [3]})")
                .find("earlier values of train.tokens"),
            std::string::npos);
  EXPECT_NE(problem(R"({"tokens": 9, "planned_tokens": [8, 7], "replanned_at": [3, 2]})")
                .find("does not ascend"),
            std::string::npos);
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

TEST(Overrides, AKeyWithoutEffectIsRefused) {
  for (const char* override :
       {"digest=abc", "identity.run=abc", "$schema=x", "model.dtype=bfloat16",
        "model.bos_token_id=1", "model.max_position_embeddings=4096"}) {
    const std::vector<std::string> problems = problems_of(config_text(), {override});
    ASSERT_EQ(problems.size(), 1U) << override;
    EXPECT_NE(problems[0].find(": has no effect: "), std::string::npos) << problems[0];
  }
  // It is the length that the scaling begins from.
  const Config scaled = parsed("", {R"(model.rope_scaling={"rope_type":"yarn","factor":2})",
                                    "model.max_position_embeddings=4096"});
  EXPECT_EQ(scaled.model.rope_scaling->original_max_position_embeddings, 4096);
  parsed("", {"model.hidden_act=silu", R"(model={"dtype":"bfloat16"})"});  // what lmtrain computes
}

TEST(Overrides, AnObjectOfASectionNamesItsSettings) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(overrides_by_setting({R"(train={"steps":5,"max_time":"1h"})", "seed=3",
                                  R"(sequence={"schedule":{"type":"natural"}, "max_length": 1e2})",
                                  R"(data={"train":["a",{"path":"b"}]})", "tokenizer={}"}),
            (Texts{"train.steps=5", "train.max_time=\"1h\"", "seed=3",
                   "sequence.schedule.type=\"natural\"", "sequence.max_length=1e2",
                   R"(data.train=["a",{"path":"b"}])"}));
  EXPECT_EQ(overrides_by_setting({R"(model={"dtype":"x","hidden_act":"silu"})"}),
            Texts{"model.hidden_act=\"silu\""});
  // A setting that is an object is one value, and what is wrong is left to apply_overrides().
  const Texts others = {R"(eval.early_stop={"patience":3})",
                        "train=5",
                        "train",
                        "=",
                        "train={",
                        R"(train={"steps":1,"steps":2})",
                        R"(train={"a.b":1})",
                        R"({"a":1})"};
  EXPECT_EQ(overrides_by_setting(others), others);
}

TEST(Overrides, DeepKeysDoNotExhaustTheStack) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  EXPECT_EQ(problems_of(config_text(), {key + "=1"}).size(), 1U);
}

}  // namespace

}  // namespace lmtrain
