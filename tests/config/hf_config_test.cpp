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
    // Qwen2Config has no head_dim.
    EXPECT_EQ(model.resolved_head_dim(),
              theirs.value("head_dim", model.hidden_size / model.num_attention_heads));
    EXPECT_EQ(model.vocab_size, theirs["vocab_size"].get<int64_t>());
    EXPECT_EQ(model.rope_theta, theirs["rope_parameters"]["rope_theta"]);
    const RopeScalingConfig scaling = model.rope_scaling.value_or(RopeScalingConfig());
    EXPECT_EQ(name_of(scaling.rope_type), theirs["rope_parameters"]["rope_type"]);
    EXPECT_EQ(model.tie_word_embeddings, theirs["tie_word_embeddings"]);
    const fs::path old = entry.path() / "config_v4.json";
    EXPECT_EQ(parse_hf_model_config(read_file(old), old.string()), model) << old;
  }
  EXPECT_GE(count, 16U);
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

TEST(HfConfig, LeftOutKeysAreQwen2ConfigsDefaults) {
  const ModelConfig model = parse_hf_model_config(R"({"model_type": "qwen2"})", "config.json");
  EXPECT_EQ(model.model_type, ModelArchitecture::kQwen2);
  EXPECT_EQ(model.intermediate_size, 22016);
  EXPECT_EQ(model.num_key_value_heads, 32);
  EXPECT_EQ(model.head_dim, std::nullopt);
  EXPECT_EQ(model.rms_norm_eps, 1e-6);
  EXPECT_FALSE(model.tie_word_embeddings);
  EXPECT_EQ(model.sliding_window, std::nullopt);
  EXPECT_EQ(model.vocab_size, 151936);
}

TEST(HfConfig, LeftOutKeysAreMistralConfigsDefaults) {
  const ModelConfig model = parse_hf_model_config(R"({"model_type": "mistral"})", "config.json");
  EXPECT_EQ(model.model_type, ModelArchitecture::kMistral);
  EXPECT_EQ(model.intermediate_size, 14336);
  EXPECT_EQ(model.num_key_value_heads, 8);
  EXPECT_EQ(model.sliding_window, 4096);
  EXPECT_EQ(model.vocab_size, 32000);
  const ModelConfig other = parse_hf_model_config(
      R"({"model_type": "mistral", "sliding_window": null, "num_key_value_heads": null})",
      "config.json");
  EXPECT_EQ(other.num_key_value_heads, 32);
  EXPECT_EQ(other.sliding_window, std::nullopt);
}

// As on the hub: the window has no effect, and there is no head_dim.
TEST(HfConfig, AQwen2OfTheHubIsRead) {
  const ModelConfig model = parse_hf_model_config(R"({
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
    "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "transformers_version": "4.40.1", "use_cache": true, "use_mrope": false,
    "use_sliding_window": false, "vocab_size": 151936,
    "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"}})",
                                                  "config.json");
  EXPECT_TRUE(model.has_qkv_bias());
  EXPECT_EQ(model.resolved_head_dim(), 64);
  EXPECT_EQ(model.sliding_window, std::nullopt);
  ASSERT_TRUE(model.rope_scaling);
  EXPECT_EQ(model.rope_scaling->rope_type, RopeType::kYarn);
  EXPECT_EQ(model.rope_scaling->original_max_position_embeddings, 32768);
  EXPECT_EQ(model.rope_scaling->beta_fast, 32);
  EXPECT_TRUE(model.rope_scaling->truncate);
}

// transformers reads attention_bias in a Llama and a Qwen3, and knows no such key of the others.
TEST(HfConfig, AttentionBiasIsThatOfTheClass) {
  for (const char* with : {"llama", "qwen3", "mistral"}) {
    const std::string begin = std::string(R"({"model_type": ")") + with + "\", ";
    EXPECT_TRUE(hf_problems(begin + R"("attention_bias": false})").empty());
    const std::vector<std::string> problems = hf_problems(begin + R"("attention_bias": true})");
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_NE(problems[0].find("/attention_bias: true is not what model_type"), std::string::npos);
  }
  EXPECT_TRUE(hf_problems(R"({"model_type": "qwen2", "attention_bias": true})").empty());
  EXPECT_TRUE(hf_problems(R"({"model_type": "qwen2", "attention_bias": false})").empty());
}

// Both versions of transformers take the length of the folder.
TEST(HfConfig, AScaledLengthIsTheModelsWhereNoneIsGiven) {
  for (const char* type : {"yarn", "llama3"}) {
    const std::string scaling = std::string(R"({"factor": 2, "rope_type": ")") + type + "\"}";
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      const ModelConfig model =
          parse_hf_model_config(std::string(R"({"model_type": "qwen2", ")") + key +
                                    "\": " + scaling + R"(, "max_position_embeddings": 640})",
                                "config.json");
      EXPECT_EQ(model.rope_scaling.value().original_max_position_embeddings, 640) << key;
    }
  }
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
  std::vector<std::string> problems = hf_problems(R"({"model_type": "gemma",
 "hidden_act": "gelu", "mlp_bias": true,
 "rope_scaling": {"rope_type": "dynamic", "factor": 2}})");
  ASSERT_EQ(problems.size(), 4U);
  EXPECT_TRUE(problems[0].starts_with("config.json:1: /model_type: \"gemma\" is not"));
  EXPECT_TRUE(problems[3].starts_with("config.json:3: /rope_scaling/rope_type: \"dynamic\""));
  problems = hf_problems("{}");
  ASSERT_EQ(problems.size(), 1U) << "no model_type";
  EXPECT_TRUE(problems[0].ends_with("allowed: llama | qwen3 | qwen2 | mistral")) << problems[0];
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

TEST(HfConfig, AQwen2ThatIsWrittenReadsBack) {
  ModelConfig model;
  model.model_type = ModelArchitecture::kQwen2;
  model.vocab_size = 67;
  model.head_dim = 64;
  const auto json = hf_model_config_json(model, 67, 128, 1, 2, -1);
  EXPECT_EQ(parse_hf_model_config(json.dump(), "config.json"), model);
  EXPECT_EQ(json["architectures"], nlohmann::ordered_json::array({"Qwen2ForCausalLM"}));
  EXPECT_EQ(json["model_type"], "qwen2");
  EXPECT_EQ(json["use_sliding_window"], false);
  for (const char* unknown : {"attention_bias", "mlp_bias", "pretraining_tp"})
    EXPECT_FALSE(json.contains(unknown)) << unknown;
}

// Without the key MistralConfig has a window of 4096.
TEST(HfConfig, AMistralThatIsWrittenReadsBack) {
  ModelConfig model;
  model.model_type = ModelArchitecture::kMistral;
  model.vocab_size = 67;
  model.head_dim = 64;
  for (const std::optional<int64_t> window : {std::optional<int64_t>(), std::optional(512L)}) {
    model.sliding_window = window;
    const auto json = hf_model_config_json(model, 67, 128, 1, 2, -1);
    EXPECT_EQ(parse_hf_model_config(json.dump(), "config.json"), model);
    EXPECT_EQ(json["architectures"], nlohmann::ordered_json::array({"MistralForCausalLM"}));
    EXPECT_TRUE(json.contains("sliding_window"));
    EXPECT_FALSE(json.contains("use_sliding_window"));
  }
}

TEST(HfConfig, ScaledPositionsAreWrittenWithTheirKeys) {
  ModelConfig model;
  model.vocab_size = 67;
  model.head_dim = 64;
  model.rope_scaling = RopeScalingConfig{.rope_type = RopeType::kLinear, .factor = 4};
  auto json = hf_model_config_json(model, 67, 128, 1, 2, -1);
  EXPECT_EQ(json["rope_scaling"],
            nlohmann::ordered_json::parse(R"({"rope_type": "linear", "factor": 4.0})"));
  EXPECT_EQ(parse_hf_model_config(json.dump(), "config.json").rope_scaling->factor, 4);
  model.rope_scaling = RopeScalingConfig{
      .rope_type = RopeType::kYarn, .factor = 4, .original_max_position_embeddings = 32};
  json = hf_model_config_json(model, 67, 128, 1, 2, -1);
  EXPECT_EQ(parse_hf_model_config(json.dump(), "config.json"), model);
  EXPECT_EQ(json["rope_scaling"].size(), 5U) << json["rope_scaling"];
  model.rope_scaling->attention_factor = 1.5;
  model.rope_scaling->mscale = 0.5;
  model.rope_scaling->mscale_all_dim = 2;
  model.rope_scaling->beta_fast = 16;
  model.rope_scaling->beta_slow = 2;
  model.rope_scaling->truncate = false;
  json = hf_model_config_json(model, 67, 128, 1, 2, -1);
  EXPECT_EQ(parse_hf_model_config(json.dump(), "config.json"), model);
  json.erase("rope_scaling");
  EXPECT_EQ(parse_hf_model_config(json.dump(), "config.json"), model);
}

}  // namespace
}  // namespace lmtrain
