#include "config/init_from.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "config/config_text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

class InitFromTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        (std::string("init_from_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    write_file_atomic(folder_ / "config.json",
                      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 300, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
        "max_position_embeddings": 2048})");
    write_file_atomic(folder_ / "tokenizer.model", "not read here");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string members(const std::string& model) const {
    return "\"init_from\": \"" + folder_.string() + "\"" +
           (model.empty() ? "" : ",\n\"model\": {" + model + "}");
  }
  fs::path folder_;
};

TEST_F(InitFromTest, GivesTheModelAndTheTokenizer) {
  const Config config = parsed(members(""));
  EXPECT_EQ(config.model.hidden_size, 64);
  EXPECT_EQ(config.model.num_key_value_heads, 2);
  EXPECT_EQ(config.model.rms_norm_eps, 1e-6);
  EXPECT_FALSE(config.model.tie_word_embeddings);
  EXPECT_EQ(config.tokenizer.model, (folder_ / "tokenizer.model").string());
}

TEST_F(InitFromTest, EqualKeysAndMaxPositionsDoNotContradict) {
  const Config config = parsed(members(
      R"("hidden_size": 64, "head_dim": 16, "max_position_embeddings": 5, "vocab_size": null,
               "activation_checkpointing": true, "initializer": "zero_outputs", "dropout": 0.1)"));
  EXPECT_EQ(config.model.dropout, 0.1);
  EXPECT_EQ(config.sequence.max_length, 1024);
  EXPECT_TRUE(config.model.activation_checkpointing);
}

TEST_F(InitFromTest, ContradictionsNameBothValues) {
  const std::vector<std::string> problems = problems_of(
      config_text(members("\"hidden_size\": 128,\n\"rope_theta\": 5, \"num_key_value_heads\": 4")));
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_TRUE(problems[0].starts_with("run.json:3: /model/hidden_size: 128 contradicts 64 in " +
                                      (folder_ / "config.json").string()))
      << problems[0];
  EXPECT_TRUE(problems[2].starts_with("run.json:4: /model/rope_theta: 5.0 contradicts 10000.0"))
      << problems[2];
}

// null is another model too, and has no effect in a model without a window.
TEST_F(InitFromTest, NullInPlaceOfTheirPositionsContradicts) {
  write_file_atomic(folder_ / "config.json",
                    R"({"model_type": "mistral", "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 300, "sliding_window": 2048, "max_position_embeddings": 4096,
        "rope_scaling": {"type": "yarn", "factor": 2.0}})");
  const Config config = parsed(members(""));
  EXPECT_EQ(config.model.sliding_window, 2048);
  EXPECT_EQ(config.model.rope_scaling.value().original_max_position_embeddings, 4096);
  const std::vector<std::string> problems =
      problems_of(config_text(members(R"("rope_scaling": null, "sliding_window": null)")));
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_NE(problems[0].find("/model/rope_scaling: null contradicts {"), std::string::npos)
      << problems[0];
  EXPECT_NE(problems[1].find("/model/sliding_window: null contradicts 2048"), std::string::npos)
      << problems[1];
  const std::vector<std::string> too_long =
      problems_of(config_text(members("")), {"sequence.max_length=4096"});
  ASSERT_EQ(too_long.size(), 1U);
  EXPECT_NE(too_long[0].find("model.sliding_window 2048 is below sequence.max_length 4096"),
            std::string::npos)
      << too_long[0];
}

TEST_F(InitFromTest, TheWindowOfAQwenHasNoEffect) {
  write_file_atomic(folder_ / "config.json",
                    R"({"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 300, "sliding_window": 128})");
  EXPECT_EQ(parsed(members("")).model.sliding_window, std::nullopt);
  EXPECT_EQ(parsed(members(R"("sliding_window": 128)")).sequence.max_length, 1024);
}

TEST_F(InitFromTest, AGivenTokenizerStays) {
  EXPECT_EQ(parsed(members(""), {"tokenizer.model=/other.model"}).tokenizer.model, "/other.model");
}

// A new tokenizer under given weights is never made by the way.
TEST_F(InitFromTest, WeightsWithoutTheirTokenizerAreRefused) {
  fs::remove(folder_ / "tokenizer.model");
  const auto problem = [&] {
    const std::vector<std::string> problems =
        problems_of(config_text(members("")), {});  // nothing of tokenizer.train either
    EXPECT_EQ(problems.size(), 1U);
    return problems.empty() ? std::string() : problems[0];
  };
  EXPECT_TRUE(problem().starts_with("run.json:2: /init_from: \"" + folder_.string() +
                                    "\" has no tokenizer.model"))
      << problem();
  EXPECT_NE(problem().find("it has no tokenizer)"), std::string::npos) << problem();
  write_file_atomic(folder_ / "vocab.json", "{}");
  EXPECT_NE(problem().find("it has vocab.json, which is not read"), std::string::npos) << problem();
  EXPECT_NE(problem().find("tokenizer.allow_mismatch"), std::string::npos) << problem();

  EXPECT_EQ(parsed(members(""), {"tokenizer.model=/their.model"}).tokenizer.model, "/their.model");
  const std::vector<std::string> allowed = {"tokenizer.allow_mismatch=true",
                                            "tokenizer.train.vocab_size=300"};
  EXPECT_EQ(parsed(members(""), allowed).tokenizer.model, std::nullopt);
}

TEST_F(InitFromTest, TokenizerJsonIsTakenWhereThereIsNoTokenizerModel) {
  write_file_atomic(folder_ / "tokenizer.json", "{}");
  EXPECT_EQ(parsed(members(""), {}).tokenizer.model, (folder_ / "tokenizer.model").string());
  fs::remove(folder_ / "tokenizer.model");
  EXPECT_EQ(parsed(members(""), {}).tokenizer.model, (folder_ / "tokenizer.json").string());
}

TEST_F(InitFromTest, NullInPlaceOfTheirTokenizerIsRefused) {
  const std::vector<std::string> problems =
      problems_of(config_text(members("")), {"tokenizer.model=null"});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("/tokenizer/model: null trains a new tokenizer"), std::string::npos)
      << problems[0];
  EXPECT_NE(problems[0].find((folder_ / "tokenizer.model").string()), std::string::npos);
  EXPECT_EQ(parsed(members(""), {"tokenizer.model=null", "tokenizer.train.vocab_size=300",
                                 "tokenizer.allow_mismatch=true"})
                .tokenizer.model,
            std::nullopt);
}

// The path of the checkpoint is what the config keeps.
TEST_F(InitFromTest, OfARunACheckpointIsTaken) {
  const fs::path run = folder_ / "run";
  fs::create_directories(run / "checkpoints");
  const auto read = [&](const CheckpointOfRun& checkpoint_of_run) {
    return parse_config(config_text("\"init_from\": \"" + run.string() + "\""), "run.json", {},
                        ConfigAuthor::kPerson, checkpoint_of_run);
  };
  const Config config = read([&](const fs::path& given) {
    EXPECT_EQ(given, run);
    return folder_;
  });
  EXPECT_EQ(config.init_from, folder_.string());
  EXPECT_EQ(config.model.hidden_size, 64);
  EXPECT_EQ(config.tokenizer.model, (folder_ / "tokenizer.model").string());
  EXPECT_THROW(read([](const fs::path&) -> fs::path {
                 throw Error(ErrorKind::kCheckpoint, "all are damaged");
               }),
               Error);
}

TEST_F(InitFromTest, AMissingFolderIsAUsageError) {
  try {
    parsed("\"init_from\": \"/nowhere\"");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_TRUE(
        std::string(error.what()).starts_with("run.json:2: /init_from: \"/nowhere\" does not"));
  }
}

TEST_F(InitFromTest, ARunAndAnEmptyFolderAreNamed) {
  fs::create_directories(folder_ / "checkpoints");
  EXPECT_NE(problems_of(config_text(members("")))[0].find("is a run; give one of the checkpoints"),
            std::string::npos);
  fs::remove_all(folder_ / "checkpoints");
  fs::remove(folder_ / "config.json");
  EXPECT_NE(problems_of(config_text(members("")))[0].find("has no config.json"), std::string::npos);
  fs::create_directories(folder_ / "own/checkpoints");
  EXPECT_NE(
      problems_of(config_text(members("")))[0].find("; runs in it: " + (folder_ / "own").string()),
      std::string::npos);
}

TEST_F(InitFromTest, ErrorsInItsConfigComeWithTheRest) {
  write_file_atomic(folder_ / "config.json", R"({"model_type": "llama", "mlp_bias": true})");
  const std::vector<std::string> problems = problems_of(config_text(members("\"hidden_siz\": 1")));
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_TRUE(problems[1].starts_with((folder_ / "config.json").string() + ":1: /mlp_bias: true"))
      << problems[1];
}

TEST_F(InitFromTest, ShowConfigSaysWhatComesFromTheFolder) {
  const std::string shown = show_config(parsed(members("")));
  EXPECT_NE(shown.find("  // from init_from\n"), std::string::npos) << shown;
  EXPECT_EQ(show_config(parsed("")).find("init_from\n"), std::string::npos);
}

TEST_F(InitFromTest, ARunsOwnConfigDoesNotNeedTheFolder) {
  const Config config = parsed(members(""));
  fs::remove_all(folder_);
  EXPECT_EQ(parse_config(show_config(config), "config.json", {}, ConfigAuthor::kRun), config);
}

}  // namespace
}  // namespace lmtrain
