// The model's settings, and the keys of transformers' LlamaConfig, Qwen3Config, Qwen2Config and
// MistralConfig that are known but change nothing here.
#include <initializer_list>

#include "config/settings.h"

namespace lmtrain {

void add_model_settings(SettingTable& t, ModelConfig& c, const std::string& prefix) {
  using Kind = SettingKind;
  const auto add = [&](const char* key, SettingSlot slot, const char* meaning) -> Setting& {
    return t.add(prefix + key, slot, meaning);
  };
  const auto accept = [&](const char* key, std::vector<std::string> values, const char* meaning) {
    add(key, {}, meaning).as(Kind::kAccepted).choices = std::move(values);
  };
  add("model_type", &c.model_type,
      "The architecture of transformers: llama; qwen3, a Llama with a norm of each query and key "
      "head (QK-norm); qwen2, a Llama with biases of queries, keys and values; mistral, a Llama "
      "under another name.")
      .from("Dehghani et al. 2023; Yang et al. 2025, Qwen3; Qwen 2024; Jiang et al. 2023");
  if (!prefix.empty()) {  // transformers' config.json has no such key
    add("size", &c.size,
        "Parameters of the model, \"3M\" or \"124M\", embedding counted: the nearest shape of a "
        "family from 0.3M to 7B. auto: what the tokens or the time of the run can train. Parts of "
        "the shape that are given replace its parts.")
        .null_is(
            "auto where neither a part of the shape nor optimizer.lr nor init_from is given, else "
            "the parts below");
  }
  add("hidden_size", &c.hidden_size, "Width; a multiple of num_attention_heads.").range(1, 1 << 20);
  add("intermediate_size", &c.intermediate_size, "Width inside the MLP.").range(1, 1 << 24);
  add("num_hidden_layers", &c.num_hidden_layers, "Layers.").range(1, 10'000);
  add("num_attention_heads", &c.num_attention_heads, "Query heads.").range(1, 1 << 20);
  add("num_key_value_heads", &c.num_key_value_heads,
      "Key and value heads; divides num_attention_heads.")
      .range(1, 1 << 20)
      .null_is("num_attention_heads")
      .default_is("num_attention_heads");
  add("head_dim", &c.head_dim, "Width of a head; even.")
      .range(2, 1 << 20)
      .null_is("hidden_size / num_attention_heads");
  add("rope_theta", &c.rope_theta, "Base of the rotary embedding's wavelengths.")
      .above(0)
      .from("Su et al. 2021");
  add("rope_scaling", &c.rope_scaling,
      "Stretches the rotary embedding: {\"rope_type\": \"yarn\", \"factor\": 4, ...}.")
      .null_is("no scaling")
      .from("transformers, modeling_rope_utils.py");
  add("sliding_window", &c.sliding_window,
      "Positions that a query of a mistral sees; at least sequence.max_length, since attention "
      "covers the whole row.")
      .range(1, 0x1p40)
      .null_is("the whole row")
      .used_if(prefix + "model_type", {ModelArchitecture::kMistral});
  add("rms_norm_eps", &c.rms_norm_eps, "Added to the mean square in RMSNorm.")
      .above(0)
      .from("Zhang & Sennrich 2019");
  add("tie_word_embeddings", &c.tie_word_embeddings, "The head is the embedding, transposed.")
      .null_is("the recipe's: false; with optimizer.lr given: true", "auto");
  add("initializer_range", &c.initializer_range, "Standard deviation of the initial weights.")
      .above(0);
  if (!prefix.empty()) {  // transformers' config.json has no such key
    add("initializer", &c.initializer,
        "normal: every matrix is drawn; zero_outputs: o_proj and down_proj begin at zero, so that "
        "layers add nothing at first.")
        .null_is("the recipe's: zero_outputs; with optimizer.lr given: normal", "auto")
        .used_if("init_from", {"null"})
        .from("Jordan et al. 2024, modded-nanogpt");
  }
  if (!prefix.empty()) {  // checkpoints are those of a model without it
    add("dropout", &c.dropout,
        "Probability, in training alone, that an element falls out: of the weights of attention, "
        "and "
        "of what attention and the MLP add to the residual stream. Checkpoints and evaluations "
        "have "
        "none. Above 0 attention is computed as matrices, which takes longer.")
        .range(0, 0.5)
        .null_is("the recipe's: 0", "auto")
        .from("Srivastava et al. 2014");
  }
  add("vocab_size", &c.vocab_size, "Rows of the embedding; at least the tokenizer's pieces.")
      .range(1, 1 << 24)
      .null_is("the tokenizer's");
  add("activation_checkpointing", &c.activation_checkpointing,
      "Recompute activations in backward: less memory, slower.");

  add("rope_parameters", {},
      "transformers 5's form of rope_theta and rope_scaling, read into them.")
      .as(Kind::kRopeParameters);
  accept("max_position_embeddings", {},
         "No effect here; checkpoints have sequence.max_length in its place.");
  accept("architectures",
         {"[\"LlamaForCausalLM\"]", "[\"Qwen3ForCausalLM\"]", "[\"Qwen2ForCausalLM\"]",
          "[\"MistralForCausalLM\"]", "null"},
         "The architecture; that of model_type.");
  accept("hidden_act", {"\"silu\"", "\"swish\""}, "The MLP is SwiGLU.");
  accept("attention_bias", {"false", "true"},
         "true of a qwen2, whose q_proj, k_proj and v_proj have biases; false of all others.");
  accept("mlp_bias", {"false"}, "Projections have no bias.");
  accept("attention_dropout", {"0"}, "A checkpoint has none; training has model.dropout.");
  accept("use_sliding_window", {"false"}, "Attention sees the whole row.");
  accept("max_window_layers", {}, "use_sliding_window says whether there is one.");
  add("layer_types", {}, "Attention sees the whole row.")
      .as(Kind::kAccepted)
      .lists({"null", "\"full_attention\""});
  accept("pretraining_tp", {"1"}, "A matrix is multiplied whole.");
  accept("rope_interleaved", {"false"}, "Rotary pairs are halves of a head.");
  accept("is_llama_config", {"true"}, "The architecture.");
  accept("tie_encoder_decoder", {"false"}, "There is no encoder.");
  accept("is_encoder_decoder", {"false"}, "There is no encoder.");
  accept("is_decoder", {"true", "false"}, "Attention is causal either way.");
  accept("add_cross_attention", {"false"}, "There is no cross-attention.");
  accept("chunk_size_feed_forward", {"0"}, "The MLP sees a row whole.");
  accept("pruned_heads", {"{}", "null"}, "No head is pruned.");
  accept("quantization_config", {"null"}, "Weights are not quantized.");
  accept("use_cache", {"true", "false"}, "For generation in transformers.");
  accept("use_return_dict", {"true", "false"}, "For transformers.");
  accept("return_dict", {"true", "false"}, "For transformers.");
  accept("output_attentions", {"true", "false"}, "For transformers.");
  accept("output_hidden_states", {"true", "false"}, "For transformers.");
  accept("torchscript", {"true", "false"}, "For transformers.");
  for (const char* key : {"torch_dtype", "dtype"}) {
    accept(key, {}, "Format of the weights in the file; precision says what is computed in.");
  }
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    accept(key, {}, "The tokenizer says it.");
  }
  for (const char* key : {"_name_or_path", "_attn_implementation", "attn_implementation",
                          "transformers_version", "tokenizer_class", "auto_map", "id2label",
                          "label2id", "problem_type", "task_specific_params"}) {
    accept(key, {}, "For transformers.");
  }
}

SettingTable rope_scaling_settings(RopeScalingConfig& scaling) {
  using enum RopeType;
  SettingTable table;
  const auto add = [&](const char* key, SettingSlot slot, std::initializer_list<RopeType> types,
                       const char* meaning) -> Setting& {
    return table.add(key, slot, meaning).used_if("rope_type", types);
  };
  table.add("rope_type", &scaling.rope_type, "The rule.")
      .from("Chen et al. 2023; Dubey et al. 2024, Llama 3; Peng et al. 2023, YaRN");
  add("factor", &scaling.factor, {kLinear, kLlama3, kYarn}, "How much longer the context gets.")
      .at_least(1)
      .default_is("8 for llama3; linear and yarn need it");
  add("low_freq_factor", &scaling.low_freq_factor, {kLlama3},
      "Wavelengths above original / this are stretched in full.")
      .above(0);
  add("high_freq_factor", &scaling.high_freq_factor, {kLlama3},
      "Wavelengths below original / this stay.")
      .above(0);
  add("original_max_position_embeddings", &scaling.original_max_position_embeddings,
      {kLlama3, kYarn}, "The length before stretching.")
      .range(1, 0x1p40)
      .default_is(
          "max_position_embeddings beside it, else 8192 for llama3; yarn needs one of them");
  add("attention_factor", &scaling.attention_factor, {kYarn}, "Multiplies cosines and sines.")
      .above(0)
      .null_is(
          "0.1 ln(factor) + 1; with mscale and mscale_all_dim the ratio of 0.1 mscale ln(factor) "
          "+ 1 of the two");
  add("mscale", &scaling.mscale, {kYarn}, "Part of attention_factor, beside mscale_all_dim.")
      .at_least(0)
      .null_is("none");
  add("mscale_all_dim", &scaling.mscale_all_dim, {kYarn},
      "Part of attention_factor, beside mscale.")
      .at_least(0)
      .null_is("none");
  add("beta_fast", &scaling.beta_fast, {kYarn},
      "Pairs that turn more often in the original length stay.")
      .above(0)
      .null_is("32");
  add("beta_slow", &scaling.beta_slow, {kYarn},
      "Pairs that turn less often in the original length are stretched in full.")
      .above(0)
      .null_is("1");
  add("truncate", &scaling.truncate, {kYarn},
      "The pairs of beta_fast and beta_slow are rounded, outwards, to whole ones.");
  return table;
}

}  // namespace lmtrain
