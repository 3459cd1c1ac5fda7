#include "config/recipe.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "config/config_text.h"
#include "config/model_family.h"

namespace lmtrain {
namespace {

constexpr int64_t kVocabSize = 8192;

Config chosen(const std::string& members, RunFacts facts = {}) {
  Config config = parsed(members);
  facts.vocab_size = kVocabSize;
  choose_settings(config, facts);
  return config;
}

// What the benchmark pages measured best: at width 256 with 1.8M tokens batches of 2,048 to 4,096.
TEST(Recipe, IsTheOneThatWasMeasured) {
  const Config config = chosen(R"("model": {"size": "7M"}, "train": {"tokens": "1.8M"})");
  EXPECT_EQ(config.model.hidden_size, 256);
  EXPECT_FALSE(config.model.tie_word_embeddings);
  EXPECT_EQ(config.model.initializer, Initializer::kZeroOutputs);
  EXPECT_EQ(config.batch.tokens, 2048);
  EXPECT_EQ(config.optimizer.type, OptimizerType::kMuon);
  EXPECT_EQ(config.optimizer.lr, 4.72e-3);
  EXPECT_EQ(config.optimizer.momentum, 0.85);
  EXPECT_EQ(config.optimizer.weight_decay, 0.1);
  const std::vector<OptimizerGroupConfig> groups = {{"model.embed_tokens.weight", 7.55e-2, {}},
                                                    {"lm_head.weight", 9.43e-3, {}},
                                                    {"*norm.weight", 4.72e-2, {}}};
  EXPECT_EQ(config.optimizer.groups, groups);
  EXPECT_EQ(config.lr_schedule.type, LrScheduleType::kLinear);
  EXPECT_EQ(config.lr_schedule.min_ratio, 0);
  EXPECT_EQ(config.sequence.schedule.cycles, 1);
}

TEST(Recipe, ALearningRateThatIsGivenChoosesNothing) {
  const std::string members = R"("optimizer": {"lr": 1e-3})";
  const Config config = chosen(members);
  EXPECT_EQ(config, parsed(members));
  EXPECT_TRUE(config.origins.chosen.empty());
  EXPECT_FALSE(takes_recipe(config));
  EXPECT_FALSE(takes_model_size(config));
  EXPECT_EQ(config.optimizer.type, OptimizerType::kAdamW);
  EXPECT_EQ(config.batch.tokens, 65536);
  EXPECT_TRUE(config.model.tie_word_embeddings);
}

TEST(Recipe, WhatIsGivenStays) {
  const Config config = chosen(
      R"("optimizer": {"momentum": 0.9, "weight_decay": 0, "groups": []}, "batch": {"tokens": 2048},
         "model": {"num_hidden_layers": 3, "size": "7M"}, "lr_schedule": {"type": "cosine"},
         "train": {"tokens": "1M"})");
  EXPECT_EQ(config.optimizer.type, OptimizerType::kMuon);
  EXPECT_EQ(config.optimizer.momentum, 0.9);
  EXPECT_EQ(config.optimizer.weight_decay, 0);
  EXPECT_TRUE(config.optimizer.groups.empty());
  EXPECT_EQ(config.batch.tokens, 2048);
  EXPECT_EQ(config.model.num_hidden_layers, 3);
  EXPECT_EQ(config.model.hidden_size, 256);
  EXPECT_EQ(config.lr_schedule.type, LrScheduleType::kCosine);
  EXPECT_EQ(config.lr_schedule.min_ratio, 0);
  for (const auto& [key, reason] : config.origins.chosen) {
    EXPECT_FALSE(config.origins.given(key)) << key;
    EXPECT_FALSE(reason.empty()) << key;
  }
}

TEST(Recipe, AutoIsLikeNotGiven) {
  const Config config = chosen(
      R"("optimizer": {"type": "auto", "lr": "auto", "weight_decay": "auto"},
         "batch": {"tokens": "auto"}, "train": {"tokens": "1.8M"},
         "model": {"size": "auto", "tie_word_embeddings": "auto", "initializer": "auto"})");
  Config plain = chosen(R"("train": {"tokens": "1.8M"})");
  plain.model.size = "auto";
  EXPECT_EQ(config, plain);
}

TEST(Recipe, EachTypeHasItsOwn) {
  const Config adamw = chosen(R"("optimizer": {"type": "adamw"}, "model": {"size": "7M"})");
  EXPECT_EQ(adamw.optimizer.lr, 1e-3);
  EXPECT_EQ(adamw.optimizer.groups.size(), 2U);
  const Config lion = chosen(R"("optimizer": {"type": "lion"}, "model": {"size": "3M"})");
  EXPECT_EQ(lion.model.hidden_size, 128);
  EXPECT_EQ(lion.optimizer.lr, 1.2e-3);
  EXPECT_EQ(lion.optimizer.betas, (std::vector<double>{0.9, 0.99}));
}

TEST(Recipe, RatesFollowTheWidth) {
  const auto lr = [](const char* size) {
    return chosen(str(R"("model": {"size": ")", size, R"("}, "train": {"tokens": "2M"})"))
        .optimizer.lr;
  };
  EXPECT_GT(lr("1M"), lr("7M"));
  EXPECT_GT(lr("7M"), lr("100M"));
  EXPECT_NEAR(lr("30M") / lr("7M"), std::sqrt(0.5), 0.01);
}

// All rates of Muon fall alike, from the rates of a short run to 0.4 of them.
TEST(Recipe, RatesFallAsARunGrows) {
  const auto rates = [](const char* tokens) {
    const OptimizerConfig optimizer =
        chosen(str(R"("model": {"size": "7M"}, "train": {"tokens": ")", tokens, R"("})")).optimizer;
    std::vector<double> all = {optimizer.lr};
    for (const OptimizerGroupConfig& group : optimizer.groups) all.push_back(*group.lr);
    return all;
  };
  const std::vector<double> shortest = rates("1M");
  EXPECT_EQ(shortest, (std::vector<double>{5e-3, 8e-2, 1e-2, 5e-2}));
  EXPECT_EQ(rates("100K"), shortest);
  for (size_t i = 0; i < shortest.size(); ++i) {
    EXPECT_NEAR(rates("4.6M")[i] / shortest[i], 0.7, 0.005) << i;
    EXPECT_NEAR(rates("100M")[i] / shortest[i], 0.4, 0.005) << i;
    EXPECT_EQ(rates("100B")[i], rates("100M")[i]) << i;
  }
}

// Of the same tokens, more passes make more decay and none less than the base.
TEST(Recipe, DecayGrowsWithThePasses) {
  double last = 0;
  for (const double text : {4e6, 1e6, 250e3, 83e3, 10e3}) {
    const double decay =
        chosen(R"("train": {"tokens": "1M"})", {.text_tokens = text}).optimizer.weight_decay;
    EXPECT_GE(decay, std::max(last, 0.1)) << text;
    EXPECT_LE(decay, 6) << text;
    last = decay;
  }
  EXPECT_EQ(last, 6);
}

// At equal passes, more parameters for a token of the text make more decay.
TEST(Recipe, DecayGrowsWithTheModel) {
  const auto decay = [](const char* size) {
    return chosen(str(R"("model": {"size": ")", size, R"("}, "train": {"tokens": "1M"})"),
                  {.text_tokens = 83e3})
        .optimizer.weight_decay;
  };
  EXPECT_NEAR(decay("1.15M"), 2.05, 0.02);
  EXPECT_NEAR(decay("2.9M"), 3.17, 0.02);
}

TEST(Recipe, BatchesFillRowsOfEveryProcess) {
  for (const char* tokens : {"50K", "1M", "100M", "100B"}) {
    for (const int64_t processes : {1, 3, 8}) {
      const Config config =
          chosen(str(R"("train": {"tokens": ")", tokens, R"("})"), {.num_processes = processes});
      EXPECT_EQ(config.batch.tokens % (config.sequence.max_length * processes), 0);
      EXPECT_GT(config.batch.tokens, 0);
    }
  }
}

TEST(Recipe, RowsGrowWithTheTextThatARunSees) {
  const auto length = [](const char* tokens, double text) {
    return chosen(str(R"("train": {"tokens": ")", tokens, R"("})"), {.text_tokens = text})
        .sequence.max_length;
  };
  EXPECT_EQ(length("1.3M", 109e3), 128);
  EXPECT_EQ(length("1M", 1e7), 256);
  EXPECT_EQ(length("4.2M", 1e7), 512);
  EXPECT_EQ(length("100M", 1e9), 1024);
  EXPECT_EQ(length("100M", 2e6), 256) << "passes show no new text";
  // A batch that is given is whole rows.
  const auto beside = [](int64_t batch) {
    return chosen(str(R"("batch": {"tokens": )", batch, R"(}, "train": {"tokens": "100M"})"))
        .sequence.max_length;
  };
  EXPECT_EQ(beside(512), 128);
  EXPECT_EQ(beside(3072), 512);
  EXPECT_EQ(beside(4096 + 128), 128);
  EXPECT_EQ(beside(65536), 1024);
}

// What was measured, what larger models are trained with, and no less than the update is worth.
TEST(Recipe, TheBatchGrowsWithTheTokens) {
  const auto batch = [](const char* tokens, const char* size) {
    return chosen(
               str(R"("model": {"size": ")", size, R"("}, "train": {"tokens": ")", tokens, R"("})"))
        .batch.tokens;
  };
  EXPECT_EQ(batch("1M", "auto"), 1024);
  EXPECT_EQ(batch("2.2M", "auto"), 2048);
  EXPECT_EQ(batch("4.6M", "auto"), 2048);
  EXPECT_EQ(batch("1B", "auto"), 65536);
  EXPECT_EQ(batch("10B", "auto"), 262144);
  EXPECT_EQ(batch("300K", "7M"), 8 * 256);
  // With steps the batch is that of the tokens that they make.
  const Config config = chosen(R"("train": {"steps": 2000})");
  const double tokens = 2000.0 * static_cast<double>(config.batch.tokens);
  EXPECT_NEAR(std::log2(0.4 * std::pow(tokens, 0.6) / static_cast<double>(config.batch.tokens)), 0,
              1);
}

TEST(Recipe, ARunWithoutLengthIsFourPasses) {
  const auto tokens = [](double text) { return *chosen("", {.text_tokens = text}).train.tokens; };
  EXPECT_EQ(tokens(1e5), 400'000);
  EXPECT_EQ(tokens(1e9), 20'000'000);
  EXPECT_FALSE(takes_run_length(parsed(R"("train": {"time": "5min"})")));
  EXPECT_TRUE(takes_run_length(parsed("")));
}

TEST(Recipe, MoreTokensMakeALargerModelAndPassesCountLess) {
  const auto multiplied = [](const char* tokens, double text) {
    const Config config =
        chosen(str(R"("train": {"tokens": ")", tokens, R"("})"), {.text_tokens = text});
    return count_multiplied(config.model, kVocabSize);
  };
  EXPECT_GT(multiplied("100M", 1e9), multiplied("1M", 1e9));
  EXPECT_GE(multiplied("100M", 1e9), multiplied("100M", 1e6));
  // 33 passes are worth 14.5 of new text, which 1.9M parameters were best for.
  EXPECT_EQ(multiplied("8.9M", 270e3), multiplied("3.9M", 1e9));
  EXPECT_GT(multiplied("8.9M", 270e3), multiplied("1.9M", 1e9));
}

// The choice is made anew when more is known, and made twice it is the same.
TEST(Recipe, IsChosenAnew) {
  Config config = chosen(R"("train": {"epochs": 2})");
  choose_settings(config, {.vocab_size = kVocabSize, .text_tokens = 500e3});
  const Config once = config;
  choose_settings(config, {.vocab_size = kVocabSize, .text_tokens = 500e3});
  EXPECT_EQ(config, once);
  EXPECT_EQ(config, chosen(R"("train": {"epochs": 2})", {.text_tokens = 500e3}));
}

// A run keeps the numbers: read again they are the same run, and nothing is chosen.
TEST(Recipe, ARunKeepsTheNumbers) {
  Config config = chosen(R"("train": {"tokens": "1M"}, "model": {"size": "3M"})");
  end_choice(config);
  const std::string kept = config_to_json(config).dump();
  Config again = parse_config(kept, "run.json", {}, ConfigAuthor::kRun);
  EXPECT_EQ(again, config);
  choose_settings(again, {.vocab_size = kVocabSize, .text_tokens = 1e3});
  EXPECT_EQ(again, config);
  // As a person's own config it is the same run too: every rate is given.
  Config own = parse_config(kept, "own.json", {});
  choose_settings(own, {.vocab_size = kVocabSize, .text_tokens = 1e3});
  EXPECT_EQ(own.optimizer, config.optimizer);
  EXPECT_EQ(own.model, config.model);
  EXPECT_EQ(own.train, config.train);
}

// What is chosen beside given settings is a config that the run's later commands can read.
TEST(Recipe, WhatIsChosenBesideGivenSettingsCanBeReadAgain) {
  for (const char* members : {
           R"("lr_schedule": {"type": "wsd", "decay": "99%"})",
           R"("batch": {"micro_tokens": 2048}, "sequence": {"max_length": 1024})",
           R"("batch": {"micro_tokens": 512})",
           R"("batch": {"micro_tokens": 131072})",
           R"("batch": {"tokens": 2000, "micro_tokens": 1000},
              "sequence": {"batching": "pack", "min_length": 200})",
           R"("batch": {"tokens": 65536}, "sequence": {"batching": "pack", "min_length": 200})",
           R"("sequence": {"batching": "pack", "max_length": 96})",
           R"("sequence": {"min_length": 2048})",
           R"("train": {"steps": 100000000000000})",
       }) {
    for (const int num_processes : {1, 3, 8}) {
      Config config = chosen(members, {.text_tokens = 4e6, .num_processes = num_processes});
      end_choice(config);
      EXPECT_LE(config.sequence.min_length, config.sequence.max_length) << members;
      EXPECT_LE(config.batch.tokens, 1 << 24) << members;
      EXPECT_EQ(problems_of(config_to_json(config).dump(), {}), std::vector<std::string>())
          << members << ", " << num_processes << " processes";
    }
  }
}

// The width of model.size is known when the choice ends.
TEST(Recipe, ABaseWidthWaitsForTheWidthOfTheSize) {
  const auto config_of = [](const std::string& model) {
    return R"("optimizer": {"lr": 1e-3, "base_width": 256}, "train": {"tokens": "1M"}, "model": )" +
           model;
  };
  Config config = chosen(config_of(R"({"size": "124M"})"));
  end_choice(config);
  EXPECT_EQ(config.model.hidden_size, 768);
  EXPECT_EQ(config.optimizer.base_width, std::nullopt);
  const Config given = parsed(config_of(R"({"hidden_size": 768, "num_attention_heads": 12})"));
  EXPECT_EQ(config.optimizer.groups, given.optimizer.groups);
  // The command that began the run may give both again.
  const Config again = parse_config(config_to_json(config).dump(), "run.json",
                                    {"optimizer.base_width=256"}, ConfigAuthor::kRun);
  EXPECT_EQ(again.optimizer.groups, given.optimizer.groups);
}

// Parts that are given need not fit the parts that nobody has chosen yet.
TEST(Recipe, PartsOfAShapeAreCheckedWithTheSizeThatCompletesThem) {
  const Config heads = chosen(R"("model": {"size": "5M", "num_attention_heads": 3})");
  EXPECT_EQ(heads.model.num_attention_heads, 3);
  EXPECT_EQ(heads.model.num_key_value_heads, 3);
  EXPECT_EQ(chosen(R"("model": {"size": "5M", "hidden_size": 90})").model.hidden_size, 90);
  EXPECT_FALSE(problems_of(config_text(R"("model": {"num_attention_heads": 3})")).empty());
  EXPECT_FALSE(problems_of(config_text(R"("model": {"size": "5M", "hidden_size": 90,
      "num_attention_heads": 4, "num_key_value_heads": 4})"))
                   .empty());
}

TEST(Recipe, SizesAndTimesThatCannotBeAreRefused) {
  const auto problem = [](const std::string& members) {
    const std::vector<std::string> problems = problems_of(config_text(members));
    return problems.empty() ? std::string() : problems.front();
  };
  EXPECT_NE(problem(R"("model": {"size": "large"})").find("3M"), std::string::npos);
  EXPECT_NE(problem(R"("model": {"size": "auto"}, "train": {"epochs": 3})").find("train.time"),
            std::string::npos);
  EXPECT_NE(problem(R"("train": {"time": "5min", "tokens": "1M"})").find("both given"),
            std::string::npos);
  EXPECT_NE(problem(R"("train": {"time": 0})").find("/train/time"), std::string::npos);
  EXPECT_NE(problem(R"("optimizer": {"base_width": 128})").find("optimizer.lr is not given"),
            std::string::npos);
  // A run that has begun has its tokens.
  try {
    parse_config(config_text(), "run.json", {"train.time=5min"}, ConfigAuthor::kRun);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("give train.tokens"), std::string::npos);
  }
}

TEST(Recipe, AVocabularyGrowsWithTheText) {
  EXPECT_EQ(vocab_size_for(0), 512);
  EXPECT_EQ(vocab_size_for(23'999), 512);
  EXPECT_EQ(vocab_size_for(24'000), 1024);
  EXPECT_EQ(vocab_size_for(320e3), 2048);
  EXPECT_EQ(vocab_size_for(1e6), 2048);
  EXPECT_EQ(vocab_size_for(5.7e6), 4096);
  EXPECT_EQ(vocab_size_for(13e6), 8192);
  EXPECT_EQ(vocab_size_for(1e12), 8192);
}

TEST(Recipe, ShowSaysWhy) {
  const std::string shown = show_config(chosen(R"("train": {"tokens": "1M"})"));
  EXPECT_NE(shown.find("\"type\": \"muon\",  // chosen: "), std::string::npos) << shown;
  EXPECT_NE(shown.find("\"lr\": "), std::string::npos);
}

}  // namespace
}  // namespace lmtrain
