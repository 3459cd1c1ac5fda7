#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "config/config_text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
const fs::path kLlamas = fs::path(LMTRAIN_SOURCE_DIR) / "tests" / "reference" / "llama";

std::vector<std::string> hf_problems(const std::string& text) {
  try {
    parse_hf_model_config(text, "config.json");
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), text.empty() ? ErrorKind::kData : ErrorKind::kConfig);
    return lines_of(error.what());
  }
}

TEST(HfConfig, ReadsWhatTransformersWrote) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(kLlamas)) {
    const fs::path file = entry.path() / "config.json";
    if (!fs::exists(file)) continue;
    ++count;
    const auto theirs = nlohmann::json::parse(read_file(file));
    const ModelConfig model = parse_hf_model_config(read_file(file), file.string());
    EXPECT_EQ(model.hidden_size, theirs["hidden_size"]);
    EXPECT_EQ(model.num_key_value_heads, theirs["num_key_value_heads"]);
    EXPECT_EQ(model.resolved_head_dim(), theirs["head_dim"]);
    EXPECT_EQ(model.vocab_size, theirs["vocab_size"].get<int64_t>());
    EXPECT_EQ(model.rope_theta, theirs["rope_parameters"]["rope_theta"]);
    EXPECT_EQ(model.rope_scaling.has_value(), theirs["rope_parameters"]["rope_type"] == "llama3");
    EXPECT_EQ(model.tie_word_embeddings, theirs["tie_word_embeddings"]);
  }
  EXPECT_GE(count, 5U);
}

TEST(HfConfig, LeftOutKeysAreLlamaConfigsDefaults) {
  const ModelConfig model = parse_hf_model_config(R"({"model_type": "llama"})", "config.json");
  EXPECT_EQ(model.hidden_size, 4096);
  EXPECT_EQ(model.intermediate_size, 11008);
  EXPECT_EQ(model.num_key_value_heads, 32);
  EXPECT_EQ(model.rms_norm_eps, 1e-6);
  EXPECT_FALSE(model.tie_word_embeddings);
  EXPECT_EQ(model.vocab_size, 32000);
}

TEST(HfConfig, LeftOutKeysAreQwen3ConfigsDefaults) {
  const ModelConfig model = parse_hf_model_config(R"({"model_type": "qwen3"})", "config.json");
  EXPECT_EQ(model.model_type, ModelArchitecture::kQwen3);
  EXPECT_EQ(model.hidden_size, 4096);
  EXPECT_EQ(model.intermediate_size, 22016);
  EXPECT_EQ(model.num_key_value_heads, 32);
  EXPECT_EQ(model.head_dim, 128);
  EXPECT_EQ(model.rms_norm_eps, 1e-6);
  EXPECT_FALSE(model.tie_word_embeddings);
  EXPECT_EQ(model.vocab_size, 151936);
}

TEST(HfConfig, ASlidingWindowIsRefusedByItsKey) {
  const std::vector<std::string> problems = hf_problems(R"({"model_type": "qwen3",
 "use_sliding_window": true,
 "sliding_window": 4096, "max_window_layers": 28,
 "layer_types": ["full_attention", "sliding_attention"]})");
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_TRUE(problems[0].starts_with("config.json:2: /use_sliding_window: true is not"));
  EXPECT_TRUE(problems[1].starts_with("config.json:4: /layer_types: ["));
  // As transformers writes a Qwen3 without a window.
  EXPECT_TRUE(hf_problems(R"({"model_type": "qwen3", "use_sliding_window": false,
 "sliding_window": 4096, "max_window_layers": 28,
 "layer_types": ["full_attention", "full_attention"]})")
                  .empty());
}

TEST(HfConfig, ArchitecturesAreThoseOfModelType) {
  const std::vector<std::string> problems =
      hf_problems(R"({"model_type": "llama", "architectures": ["Qwen3ForCausalLM"]})");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_TRUE(problems[0].starts_with("config.json:1: /architectures: [\"Qwen3ForCausalLM\"] is "));
  EXPECT_NE(problems[0].find("LlamaForCausalLM"), std::string::npos);
  EXPECT_EQ(hf_problems(R"({"model_type": "qwen3", "architectures": ["LlamaForCausalLM"]})").size(),
            1U);
  EXPECT_TRUE(
      hf_problems(R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]})").empty());
}

TEST(HfConfig, BothFormsOfRopeAreOne) {
  const ModelConfig v4 = parse_hf_model_config(
      R"({"model_type": "llama", "rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3",
          "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}})",
      "config.json");
  const ModelConfig v5 = parse_hf_model_config(
      R"({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5,
          "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}})",
      "config.json");
  EXPECT_EQ(v4, v5);
}

TEST(HfConfig, WhatLmtrainDoesNotComputeIsRefused) {
  const std::vector<std::string> problems = hf_problems(R"({"model_type": "mistral",
 "hidden_act": "gelu", "attention_bias": true,
 "rope_scaling": {"rope_type": "yarn", "factor": 2}})");
  ASSERT_EQ(problems.size(), 4U);
  EXPECT_TRUE(problems[0].starts_with("config.json:1: /model_type: \"mistral\" is not"));
  EXPECT_TRUE(problems[3].starts_with("config.json:3: /rope_scaling/rope_type: \"yarn\""));
  EXPECT_EQ(hf_problems("{}").size(), 1U) << "no model_type";
  EXPECT_EQ(hf_problems("[]").size(), 1U);
  EXPECT_EQ(hf_problems("").size(), 1U);
  EXPECT_EQ(hf_problems(R"({"model_type": "llama", "hidden_size": 4100})").size(), 1U);
}

TEST(HfConfig, KeysUnknownToLlamaConfigChangeNothing) {
  EXPECT_TRUE(
      hf_problems(R"({"model_type": "llama", "transformers.js_config": {"a": 1}})").empty());
}

TEST(HfConfig, WhatIsWrittenReadsBack) {
  ModelConfig model;
  model.vocab_size = 67;
  model.rope_theta = 500.0;
  for (const bool scaled : {false, true}) {
    if (scaled) model.rope_scaling = RopeScalingConfig{RopeType::kLlama3, 8.0, 1.0, 4.0, 64};
    const auto json = hf_model_config_json(model, 67, 128, 1, 2, -1);
    ModelConfig expected = model;
    expected.head_dim = 64;  // always written
    EXPECT_EQ(parse_hf_model_config(json.dump(), "config.json"), expected);
    EXPECT_EQ(json["architectures"], nlohmann::ordered_json::array({"LlamaForCausalLM"}));
    EXPECT_TRUE(json["pad_token_id"].is_null());
    EXPECT_EQ(json["max_position_embeddings"], 128);
    // Version 4 reads rope_theta and rope_scaling, version 5 rope_parameters.
    EXPECT_EQ(json["rope_theta"], 500.0);
    EXPECT_EQ(json["rope_scaling"].is_null(), !scaled);
    EXPECT_EQ(json["rope_parameters"]["rope_theta"], 500.0);
    EXPECT_EQ(json["rope_parameters"]["rope_type"], scaled ? "llama3" : "default");
  }
}

TEST(HfConfig, AQwen3ThatIsWrittenReadsBack) {
  ModelConfig model;
  model.model_type = ModelArchitecture::kQwen3;
  model.vocab_size = 67;
  model.head_dim = 32;
  const auto json = hf_model_config_json(model, 67, 128, 1, 2, -1, CheckpointDType::kBf16);
  EXPECT_EQ(parse_hf_model_config(json.dump(), "config.json"), model);
  EXPECT_EQ(json["architectures"], nlohmann::ordered_json::array({"Qwen3ForCausalLM"}));
  EXPECT_EQ(json["model_type"], "qwen3");
  EXPECT_EQ(json["use_sliding_window"], false);
  EXPECT_EQ(json["dtype"], "bfloat16");
  EXPECT_EQ(json["torch_dtype"], "bfloat16");
  EXPECT_FALSE(json.contains("mlp_bias"));
}

}  // namespace
}  // namespace lmtrain
