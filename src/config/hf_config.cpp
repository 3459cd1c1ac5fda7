// transformers' config.json of a Llama, Qwen3, Qwen2 or Mistral, read and written. Written keys and
// their values were checked with transformers 4.57 and 5.23: the forms of rope_theta and
// rope_scaling of both are there, as version 4 ignores rope_parameters.
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

// The defaults of the class of transformers that `type` names.
ModelConfig defaults_of(ModelArchitecture type) {
  ModelConfig model = llama_defaults();
  model.model_type = type;
  switch (type) {
    case ModelArchitecture::kLlama:
      break;
    case ModelArchitecture::kQwen3:
    case ModelArchitecture::kQwen2:
      model.intermediate_size = 22016;
      model.num_key_value_heads = 32;
      if (type == ModelArchitecture::kQwen3) model.head_dim = 128;
      model.vocab_size = 151936;
      break;
    case ModelArchitecture::kMistral:
      model.intermediate_size = 14336;
      model.num_key_value_heads = 8;
      model.sliding_window = 4096;
      break;
  }
  return model;
}

// Returns the type that a config.json names; llama where it names none that is known.
ModelArchitecture named_type(const JsonNode& root) {
  const JsonNode* type = root.find("model_type");
  if (type == nullptr || !type->is(JsonNode::Type::kString)) return ModelArchitecture::kLlama;
  return value_named<ModelArchitecture>(type->text).value_or(ModelArchitecture::kLlama);
}

// Returns the keys of scaled positions that transformers reads for their type.
nlohmann::ordered_json scaling_json(const RopeScalingConfig& scaling) {
  nlohmann::ordered_json json = {{"rope_type", name_of(scaling.rope_type)},
                                 {"factor", scaling.factor}};
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) json[key] = *value;
  };
  if (scaling.rope_type == RopeType::kLlama3) {
    json["low_freq_factor"] = scaling.low_freq_factor;
    json["high_freq_factor"] = scaling.high_freq_factor;
  }
  if (scaling.rope_type != RopeType::kLinear)
    json["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  if (scaling.rope_type == RopeType::kYarn) {
    add("attention_factor", scaling.attention_factor);
    add("mscale", scaling.mscale);
    add("mscale_all_dim", scaling.mscale_all_dim);
    json["beta_fast"] = scaling.beta_fast;
    json["beta_slow"] = scaling.beta_slow;
    // Older versions know no such key.
    if (!scaling.truncate) json["truncate"] = false;
  }
  return json;
}

}  // namespace

ModelConfig parse_hf_model_config(std::string_view text, const std::string& origin) {
  JsonReadResult json = read_json_file_text(text, origin);
  if (!json.root) throw Error(ErrorKind::kData, join(json.problems, "\n"));
  const ModelConfig defaults = defaults_of(named_type(*json.root));
  ModelConfig model = defaults;
  const SettingTable table = model_settings(model, "");
  // A key that transformers' class does not know has no effect in transformers either.
  SettingReader reader(SettingReader::UnknownKeys::kIgnore);
  reader.read_section(*json.root, table, "", "");
  const bool is_llama = model.model_type == ModelArchitecture::kLlama;
  const bool names_heads = json.root->find("num_key_value_heads") != nullptr;
  if (!reader.origins().given("num_key_value_heads") && (is_llama || names_heads)) {
    model.num_key_value_heads = model.num_attention_heads;
  }
  // In a Qwen's file the number is there also where use_sliding_window is false.
  if (model.model_type != ModelArchitecture::kMistral) model.sliding_window.reset();
  if (json.root->is(JsonNode::Type::kObject)) {
    if (!reader.origins().given("model_type")) {
      reader.problem(json.root->where, "/model_type",
                     "is missing, so this is not transformers' config.json; allowed: " +
                         describe_allowed(*table.find("model_type")));
    }
    if (!model.vocab_size) model.vocab_size = defaults.vocab_size;
    check_architectures(&*json.root, model, "", reader);
    check_attention_bias(&*json.root, model, "", reader);
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
    rope_scaling = scaling_json(*model.rope_scaling);
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
  if (model.model_type == ModelArchitecture::kLlama) return json;
  // LlamaConfig has these and the others have not, and the other way round. Qwen3Config alone has
  // attention_bias too.
  for (const char* key : {"mlp_bias", "pretraining_tp"}) json.erase(key);
  if (model.model_type != ModelArchitecture::kQwen3) json.erase("attention_bias");
  json["sliding_window"] = nullptr;
  if (model.model_type != ModelArchitecture::kMistral) {
    json["use_sliding_window"] = false;
  } else if (model.sliding_window) {
    json["sliding_window"] = *model.sliding_window;
  }
  return json;
}

}  // namespace lmtrain
