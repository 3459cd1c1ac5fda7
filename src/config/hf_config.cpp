// transformers' config.json of a Llama, read and written. Written keys and their values were
// checked with transformers 4.57 and 5.23: the forms of rope_theta and rope_scaling of both are
// there, as version 4 ignores rope_parameters.
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

}  // namespace

ModelConfig parse_hf_model_config(std::string_view text, const std::string& origin) {
  JsonReadResult json = read_json_file_text(text, origin);
  if (!json.root) throw Error(ErrorKind::kConfig, join(json.problems, "\n"));
  ModelConfig model = llama_defaults();
  SettingTable table;
  add_model_settings(table, model, "");
  // A key that LlamaConfig does not know has no effect in transformers either.
  SettingReader reader(SettingReader::UnknownKeys::kIgnore);
  reader.read_section(*json.root, table, "", "");
  if (!reader.origins().given("num_key_value_heads")) {
    model.num_key_value_heads = model.num_attention_heads;
  }
  if (json.root->is(JsonNode::Type::kObject)) {
    if (!reader.origins().given("model_type")) {
      reader.problem(json.root->where, "/model_type",
                     "is missing, so this is not transformers' config.json; allowed: \"llama\"");
    }
    if (!model.vocab_size) model.vocab_size = llama_defaults().vocab_size;
    check_model(model, "", reader);
  }
  std::vector<std::string> problems = std::move(json.problems);
  problems.insert(problems.end(), reader.problems().begin(), reader.problems().end());
  if (!problems.empty()) throw Error(ErrorKind::kConfig, join(problems, "\n"));
  return model;
}

nlohmann::ordered_json hf_model_config_json(const ModelConfig& model, int64_t vocab_size,
                                            int64_t max_position_embeddings, int64_t bos_id,
                                            int64_t eos_id, int64_t pad_id) {
  using Json = nlohmann::ordered_json;
  const auto id = [](int64_t value) { return value < 0 ? Json(nullptr) : Json(value); };
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
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", id(bos_id)},
          {"dtype", "float32"},
          {"eos_token_id", id(eos_id)},
          {"head_dim", model.resolved_head_dim()},
          {"hidden_act", "silu"},
          {"hidden_size", model.hidden_size},
          {"initializer_range", model.initializer_range},
          {"intermediate_size", model.intermediate_size},
          {"max_position_embeddings", max_position_embeddings},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", model.num_attention_heads},
          {"num_hidden_layers", model.num_hidden_layers},
          {"num_key_value_heads", model.num_key_value_heads},
          {"pad_token_id", id(pad_id)},
          {"pretraining_tp", 1},
          {"rms_norm_eps", model.rms_norm_eps},
          {"rope_parameters", rope_parameters},
          {"rope_scaling", rope_scaling},
          {"rope_theta", model.rope_theta},
          {"tie_word_embeddings", model.tie_word_embeddings},
          {"torch_dtype", "float32"},
          {"use_cache", true},
          {"vocab_size", vocab_size}};
}

}  // namespace lmtrain
