// transformers' config.json of a Llama or Qwen3, read and written. Written keys and their values
// were checked with transformers 4.57 and 5.23: the forms of rope_theta and rope_scaling of both
// are there, as version 4 ignores rope_parameters.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "config/check.h"
#include "config/parse.h"
#include "config/read_settings.h"

namespace lmtrain {
namespace {

// The defaults of transformers' LlamaConfig, for keys that a file leaves out.
ModelConfig llama_defaults() {
  ModelConfig model;
  model.hidden_size = 4096;
  model.intermediate_size = 11008;
  model.num_hidden_layers = 32;
  model.num_attention_heads = 32;
  model.rms_norm_eps = 1e-6;
  model.tie_word_embeddings = false;
  model.vocab_size = 32000;
  return model;
}

// The defaults of transformers' Qwen3Config.
ModelConfig qwen3_defaults() {
  ModelConfig model = llama_defaults();
  model.model_type = ModelArchitecture::kQwen3;
  model.intermediate_size = 22016;
  model.head_dim = 128;
  model.vocab_size = 151936;
  return model;
}

bool is_qwen3(const JsonNode& root) {
  const JsonNode* type = root.find("model_type");
  return type != nullptr && type->is(JsonNode::Type::kString) &&
         type->text == name_of(ModelArchitecture::kQwen3);
}

}  // namespace

ModelConfig parse_hf_model_config(std::string_view text, const std::string& origin) {
  JsonReadResult json = read_json_file_text(text, origin);
  if (!json.root) throw Error(ErrorKind::kData, join(json.problems, "\n"));
  const ModelConfig defaults = is_qwen3(*json.root) ? qwen3_defaults() : llama_defaults();
  ModelConfig model = defaults;
  SettingTable table;
  add_model_settings(table, model, "");
  // A key that transformers' class does not know has no effect in transformers either.
  SettingReader reader(SettingReader::UnknownKeys::kIgnore);
  reader.read_section(*json.root, table, "", "");
  if (!reader.origins().given("num_key_value_heads")) {
    model.num_key_value_heads = model.num_attention_heads;
  }
  if (json.root->is(JsonNode::Type::kObject)) {
    if (!reader.origins().given("model_type")) {
      reader.problem(
          json.root->where, "/model_type",
          "is missing, so this is not transformers' config.json; allowed: llama | qwen3");
    }
    if (!model.vocab_size) model.vocab_size = defaults.vocab_size;
    check_architectures(&*json.root, model, "", reader);
    check_model(model, "", reader);
  }
  std::vector<std::string> problems = std::move(json.problems);
  problems.insert(problems.end(), reader.problems().begin(), reader.problems().end());
  if (!problems.empty()) throw Error(ErrorKind::kConfig, join(problems, "\n"));
  return model;
}

nlohmann::ordered_json hf_rope_json(const ModelConfig& model) {
  using Json = nlohmann::ordered_json;
  Json rope_scaling = nullptr;
  Json rope_parameters = {{"rope_type", name_of(RopeType::kDefault)},
                          {"rope_theta", model.rope_theta}};
  if (model.rope_scaling) {
    const RopeScalingConfig& scaling = *model.rope_scaling;
    rope_scaling = {{"rope_type", name_of(scaling.rope_type)},
                    {"factor", scaling.factor},
                    {"low_freq_factor", scaling.low_freq_factor},
                    {"high_freq_factor", scaling.high_freq_factor},
                    {"original_max_position_embeddings", scaling.original_max_position_embeddings}};
    rope_parameters = rope_scaling;
    rope_parameters["rope_theta"] = model.rope_theta;
  }
  return {{"rope_parameters", rope_parameters},
          {"rope_scaling", rope_scaling},
          {"rope_theta", model.rope_theta}};
}

nlohmann::ordered_json hf_model_config_json(const ModelConfig& model, int64_t vocab_size,
                                            int64_t max_position_embeddings, int64_t bos_id,
                                            int64_t eos_id, int64_t pad_id, CheckpointDType dtype) {
  using Json = nlohmann::ordered_json;
  const auto id = [](int64_t value) { return value < 0 ? Json(nullptr) : Json(value); };
  const Json rope = hf_rope_json(model);
  const char* weights = dtype == CheckpointDType::kBf16 ? "bfloat16" : "float32";
  Json json = {{"architectures", {hf_class(model.model_type)}},
               {"attention_bias", false},
               {"attention_dropout", 0.0},
               {"bos_token_id", id(bos_id)},
               {"dtype", weights},
               {"eos_token_id", id(eos_id)},
               {"head_dim", model.resolved_head_dim()},
               {"hidden_act", "silu"},
               {"hidden_size", model.hidden_size},
               {"initializer_range", model.initializer_range},
               {"intermediate_size", model.intermediate_size},
               {"max_position_embeddings", max_position_embeddings},
               {"mlp_bias", false},
               {"model_type", name_of(model.model_type)},
               {"num_attention_heads", model.num_attention_heads},
               {"num_hidden_layers", model.num_hidden_layers},
               {"num_key_value_heads", model.num_key_value_heads},
               {"pad_token_id", id(pad_id)},
               {"pretraining_tp", 1},
               {"rms_norm_eps", model.rms_norm_eps},
               {"rope_parameters", rope["rope_parameters"]},
               {"rope_scaling", rope["rope_scaling"]},
               {"rope_theta", rope["rope_theta"]},
               {"tie_word_embeddings", model.tie_word_embeddings},
               {"torch_dtype", weights},
               {"use_cache", true},
               {"vocab_size", vocab_size}};
  if (model.model_type == ModelArchitecture::kQwen3) {
    // LlamaConfig has these and Qwen3Config has not, and the other way round.
    for (const char* key : {"mlp_bias", "pretraining_tp"}) json.erase(key);
    json["use_sliding_window"] = false;
    json["sliding_window"] = nullptr;
  }
  return json;
}

}  // namespace lmtrain
