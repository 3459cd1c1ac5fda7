#include "checkpoint/gguf_model.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "config/model_family.h"

namespace lmtrain {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr std::array<NamePair, 3> kNames = {{{"model.embed_tokens.weight", "token_embd.weight"},
                                             {"model.norm.weight", "output_norm.weight"},
                                             {"lm_head.weight", "output.weight"}}};
constexpr std::array<NamePair, 14> kNamesInLayer = {
    {{"input_layernorm.weight", "attn_norm.weight"},
     {"self_attn.q_proj.weight", "attn_q.weight"},
     {"self_attn.k_proj.weight", "attn_k.weight"},
     {"self_attn.v_proj.weight", "attn_v.weight"},
     {"self_attn.q_proj.bias", "attn_q.bias"},
     {"self_attn.k_proj.bias", "attn_k.bias"},
     {"self_attn.v_proj.bias", "attn_v.bias"},
     {"self_attn.o_proj.weight", "attn_output.weight"},
     {"self_attn.q_norm.weight", "attn_q_norm.weight"},
     {"self_attn.k_norm.weight", "attn_k_norm.weight"},
     {"post_attention_layernorm.weight", "ffn_norm.weight"},
     {"mlp.gate_proj.weight", "ffn_gate.weight"},
     {"mlp.up_proj.weight", "ffn_up.weight"},
     {"mlp.down_proj.weight", "ffn_down.weight"}}};
constexpr std::string_view kLayers = "model.layers.";

constexpr uint32_t kQuantizationVersion = 2;  // GGML_QNT_VERSION

// llama_ftype
uint32_t file_type(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return 0;
    case GgufType::kF16:
      return 1;
    case GgufType::kQ80:
      return 7;
    case GgufType::kBF16:
      break;
  }
  return 32;
}

RopeType rope_type(const ModelConfig& model) {
  return model.rope_scaling ? model.rope_scaling->rope_type : RopeType::kDefault;
}

// llama.cpp computes queries and keys of these with neighbours as pairs.
bool is_llama_of_gguf(const ModelConfig& model) {
  return model.model_type == ModelArchitecture::kLlama ||
         model.model_type == ModelArchitecture::kMistral;
}

// The keys of positions that are divided by one number, or by yarn.
void add_scaling(const ModelConfig& model, const std::string& architecture,
                 GgufMetadata& metadata) {
  const RopeType type = rope_type(model);
  if (type != RopeType::kLinear && type != RopeType::kYarn) return;
  const std::string prefix = architecture + ".rope.scaling.";
  metadata.add_text(prefix + "type", std::string(name_of(type)));
  metadata.add_number(prefix + "factor", static_cast<float>(model.rope_scaling->factor));
  if (type == RopeType::kLinear) return;
  metadata.add_integer(prefix + "original_context_length",
                       static_cast<uint32_t>(model.rope_scaling->original_max_position_embeddings));
}

}  // namespace

std::string gguf_tensor_name(std::string_view hf_name) {
  for (const auto& [theirs, ours] : kNames) {
    if (hf_name == theirs) return std::string(ours);
  }
  if (hf_name.starts_with(kLayers)) {
    const std::string_view rest = hf_name.substr(kLayers.size());
    const size_t dot = rest.find('.');
    for (const auto& [theirs, ours] : kNamesInLayer) {
      if (dot != std::string_view::npos && rest.substr(dot + 1) == theirs)
        return str("blk.", rest.substr(0, dot), ".", ours);
    }
  }
  throw Error(ErrorKind::kInternal, str("GGUF has no name for the tensor ", hf_name));
}

int64_t paired_heads(const ModelConfig& model, std::string_view hf_name) {
  if (!is_llama_of_gguf(model)) return 0;
  if (hf_name.ends_with(".q_proj.weight")) return model.num_attention_heads;
  if (hf_name.ends_with(".k_proj.weight")) return model.num_key_value_heads;
  return 0;
}

std::vector<float> with_paired_rows(std::span<const float> values, int64_t heads, int64_t columns) {
  const int64_t half = static_cast<int64_t>(values.size()) / columns / heads / 2;
  std::vector<float> result;
  result.reserve(values.size());
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t row = 0; row < half; ++row) {
      for (const int64_t part : {row, row + half}) {
        const auto from = values.subspan(static_cast<size_t>((head * 2 * half + part) * columns),
                                         static_cast<size_t>(columns));
        result.insert(result.end(), from.begin(), from.end());
      }
    }
  }
  return result;
}

std::vector<float> gguf_rope_factors(const ModelConfig& model) {
  if (rope_type(model) != RopeType::kLlama3) return {};
  const RopeScalingConfig& scaling = *model.rope_scaling;
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const int64_t size = model.resolved_head_dim();
  std::vector<float> factors;
  for (int64_t i = 0; i < size; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(size);
    const double wavelength = 2 * std::numbers::pi * std::pow(model.rope_theta, exponent);
    double factor = 1;
    if (wavelength > original / scaling.low_freq_factor) {
      factor = scaling.factor;
    } else if (wavelength >= original / scaling.high_freq_factor) {
      const double smooth = (original / wavelength - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
      factor = 1 / ((1 - smooth) / scaling.factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

GgufType gguf_type_of(const std::vector<int64_t>& shape, GgufType type) {
  if (shape.size() < 2) return GgufType::kF32;
  if (type == GgufType::kQ80 && shape.back() % kQ8Block != 0) return GgufType::kF16;
  return type;
}

void add_gguf_model(const ModelConfig& model, const GgufFacts& facts, GgufMetadata& metadata) {
  if (const std::string why = why_not_for_llama_cpp(model); !why.empty())
    throw Error(ErrorKind::kConfig, why + "; export it with --format hf");
  const std::string architecture(
      name_of(is_llama_of_gguf(model) ? ModelArchitecture::kLlama : model.model_type));
  metadata.add_text("general.architecture", architecture);
  metadata.add_text("general.type", "model");
  metadata.add_text("general.name", facts.name);
  metadata.add_text("general.size_label", size_label(facts.parameters));
  if (facts.card.license) metadata.add_text("general.license", *facts.card.license);
  if (facts.card.language) metadata.add_texts("general.languages", *facts.card.language);
  metadata.add_integer("general.file_type", file_type(facts.type));
  metadata.add_integer("general.quantization_version", kQuantizationVersion);
  metadata.add_integer("general.alignment", kGgufAlignment);
  const auto add = [&](const char* key, int64_t value) {
    metadata.add_integer(str(architecture, ".", key), static_cast<uint32_t>(value));
  };
  add("block_count", model.num_hidden_layers);
  add("context_length", facts.max_length);
  add("embedding_length", model.hidden_size);
  add("feed_forward_length", model.intermediate_size);
  add("attention.head_count", model.num_attention_heads);
  add("attention.head_count_kv", model.num_key_value_heads);
  add("attention.key_length", model.resolved_head_dim());
  add("attention.value_length", model.resolved_head_dim());
  add("rope.dimension_count", model.resolved_head_dim());
  add("vocab_size", facts.vocab_size);
  metadata.add_number(str(architecture, ".attention.layer_norm_rms_epsilon"),
                      static_cast<float>(model.rms_norm_eps));
  metadata.add_number(str(architecture, ".rope.freq_base"), static_cast<float>(model.rope_theta));
  add_scaling(model, architecture, metadata);
}

std::string size_label(int64_t parameters) {
  constexpr std::array<std::pair<double, char>, 4> kUnits = {
      {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}}};
  for (const auto& [unit, letter] : kUnits) {
    const double value = static_cast<double>(parameters) / unit;
    if (value >= 1 || letter == 'K')
      return str(printed(value >= 9.95 ? "%.0f" : "%.1f", value), letter);
  }
  return {};
}

}  // namespace lmtrain
