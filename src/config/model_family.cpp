#include "config/model_family.h"

#include <cmath>
#include <limits>

#include "base/text.h"

namespace lmtrain {
namespace {

struct Shape {
  int64_t hidden, intermediate, layers, heads, key_value_heads;
};
// Heads are 32 wide up to a width of 192, 64 to 128 above. From 512 on the shapes are those of the
// presets: 30m, 124m (GPT-2 small), 350m (GPT-2 medium), 1.1b (TinyLlama), 3b (Llama 3.2), 7b
// (LLaMA).
constexpr Shape kFamily[] = {
    {32, 96, 2, 1, 1},       {64, 176, 2, 2, 2},        {96, 256, 3, 3, 3},
    {128, 352, 4, 4, 4},     {192, 512, 4, 6, 6},       {256, 704, 4, 4, 4},
    {320, 896, 5, 5, 5},     {384, 1024, 6, 6, 6},      {512, 1408, 7, 8, 8},
    {640, 1728, 9, 10, 10},  {768, 2048, 12, 12, 12},   {1024, 2880, 24, 16, 16},
    {1536, 4096, 24, 24, 8}, {2048, 5632, 22, 32, 4},   {2560, 6912, 26, 20, 4},
    {3072, 8192, 28, 24, 8}, {4096, 11008, 32, 32, 32},
};

void set_shape(ModelConfig& model, const Shape& shape) {
  model.hidden_size = shape.hidden;
  model.intermediate_size = shape.intermediate;
  model.num_hidden_layers = shape.layers;
  model.num_attention_heads = shape.heads;
  model.num_key_value_heads = shape.key_value_heads;
  model.head_dim.reset();
}

template <class Count>
void set_nearest(ModelConfig& model, double wanted, const Count& count) {
  double least = std::numeric_limits<double>::infinity();
  Shape nearest = kFamily[0];
  for (const Shape& shape : kFamily) {
    set_shape(model, shape);
    const double ratio = std::abs(std::log(count(model) / wanted));
    if (ratio >= least) continue;
    least = ratio;
    nearest = shape;
  }
  set_shape(model, nearest);
}

double layer_parameters(const ModelConfig& model) {
  const auto width = static_cast<double>(model.hidden_size);
  const auto head = static_cast<double>(model.resolved_head_dim());
  const double queries = static_cast<double>(model.num_attention_heads) * head;
  const double keys = static_cast<double>(model.num_key_value_heads) * head;
  const double norms = 2 * width + (model.has_qk_norm() ? 2 * head : 0);
  const double biases = model.has_qkv_bias() ? queries + 2 * keys : 0;
  return width * (2 * queries + 2 * keys + 3 * static_cast<double>(model.intermediate_size)) +
         norms + biases;
}

}  // namespace

double count_multiplied(const ModelConfig& model, int64_t vocab_size) {
  const auto width = static_cast<double>(model.hidden_size);
  return static_cast<double>(model.num_hidden_layers) * layer_parameters(model) + width +
         static_cast<double>(vocab_size) * width;
}

double count_parameters(const ModelConfig& model, int64_t vocab_size) {
  const double embedding = static_cast<double>(vocab_size) * static_cast<double>(model.hidden_size);
  return count_multiplied(model, vocab_size) + (model.tie_word_embeddings ? 0 : embedding);
}

void set_size(ModelConfig& model, int64_t vocab_size, double parameters) {
  set_nearest(model, parameters,
              [&](const ModelConfig& shape) { return count_parameters(shape, vocab_size); });
}

void set_multiplied(ModelConfig& model, int64_t vocab_size, double multiplied) {
  set_nearest(model, multiplied,
              [&](const ModelConfig& shape) { return count_multiplied(shape, vocab_size); });
}

std::vector<ModelConfig> family_of(const ModelConfig& model) {
  std::vector<ModelConfig> family;
  for (const Shape& shape : kFamily) set_shape(family.emplace_back(model), shape);
  return family;
}

std::string why_not_for_llama_cpp(const ModelConfig& model) {
  if (!model.rope_scaling) return "";
  const RopeScalingConfig& scaling = *model.rope_scaling;
  // llama.cpp computes queries and keys of these with neighbours as pairs.
  const bool is_llama = model.model_type == ModelArchitecture::kLlama ||
                        model.model_type == ModelArchitecture::kMistral;
  if (scaling.rope_type == RopeType::kLlama3 && !is_llama) {
    return str("llama.cpp computes no ", model.has_qk_norm() ? "Qwen3" : "Qwen2",
               " with the scaled positions of rope_type \"llama3\"");
  }
  if (scaling.rope_type != RopeType::kYarn) return "";
  RopeScalingConfig plain = scaling;
  const RopeScalingConfig defaults;
  plain.attention_factor = plain.mscale = plain.mscale_all_dim = std::nullopt;
  plain.beta_fast = defaults.beta_fast;
  plain.beta_slow = defaults.beta_slow;
  plain.truncate = defaults.truncate;
  if (plain == scaling) return "";
  return "llama.cpp computes rope_type \"yarn\" with the default attention_factor, beta_fast, "
         "beta_slow and truncate, and the model has others";
}

std::string model_text(const ModelConfig& model, int64_t num_parameters) {
  return str(format_count(static_cast<double>(num_parameters)), " parameters, ",
             counted(model.num_hidden_layers, "layer"), ", hidden size ", model.hidden_size,
             ", vocabulary ", *model.vocab_size);
}

}  // namespace lmtrain
