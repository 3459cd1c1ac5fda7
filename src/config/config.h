// The settings of a run. A struct has the fields of a section of the JSON file, with their names
// and defaults. The add_settings() below it says each setting once, as a row of a table: its key,
// meaning and range, and when it has an effect. The parser, `config schema`, `config explain` and
// docs/config.md are made from these rows. So a new setting is a field and a row here.
//
// Rows are templates of the table (SettingTable of config/settings.h), so that code which only
// reads a Config needs nothing of the table. A row says only what is not the default of Setting.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/enums.h"

namespace lmtrain {

// A TrainingDuration is the length of a part of a run: "500 steps", "10M" tokens, "2%" of the run
// (value 2), "90s", "2 epochs". Tokens are targets. Each key has its own unit for a bare number
// (Setting::bare_unit). In a key named `every`, 0 stands for never.
struct TrainingDuration {
  enum class Unit { kSteps, kTokens, kPercent, kSeconds, kEpochs };
  double value = 0;
  Unit unit = Unit::kSteps;
  bool operator==(const TrainingDuration&) const = default;
};

// The kind of JSON that a setting takes.
enum class SettingKind {
  kBool,
  kInteger,
  kNumber,
  kText,
  kName,               // text that can be a folder's name
  kPath,               // ${VAR} expanded
  kChoice,             // the name of an enum's value
  kDevice,             // auto | cpu | cuda | cuda:N
  kTokens,             // integer or "10B"
  kBytes,              // integer or "100MB"
  kDuration,           // seconds or "90s"
  kTrainingDuration,   // a number in `bare_unit`, or text in one of `units`
  kNumbers,            // list of numbers
  kIntegers,           // list of integers
  kTrainingDurations,  // list of durations
  kTexts,              // text, or a list of texts, one at least
  kSources,            // list of data sources
  kNamedSources,       // the same, or an object of named sets, each such a list
  kGroups,             // list of optimizer groups
  kRopeScaling,        // transformers' rope_scaling
  kEarlyStop,          // an object
  kSamples,            // an object
  kRopeParameters,     // transformers 5: rope_theta and rope_scaling in one object
  kAccepted,  // no effect; the value must be one of `choices` (as JSON), any if there are none
};

struct TokenizerTrainConfig {
  std::optional<int64_t> vocab_size;  // none: vocab_size_for() of the text (config/recipe.h)
  TokenizerType type = TokenizerType::kBpe;
  bool byte_fallback = true;
  int64_t sample = 100'000'000;  // bytes of text
  bool operator==(const TokenizerTrainConfig&) const = default;
};

struct TokenizerConfig {
  // The path of a sentencepiece .model or of a tokenizer.json; none: train one.
  std::optional<std::string> model;
  TokenizerTrainConfig train;
  bool allow_mismatch = false;  // with init_from: the weights may belong to another tokenizer
  // none: auto. The files of a given tokenizer then decide; a trained tokenizer adds both. The
  // config of a run has the values (prepare/given_tokenizer.h).
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  bool operator==(const TokenizerConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, TokenizerConfig& c) {
  t.section("tokenizer", "How text becomes ids.");
  t.add("tokenizer.model", &c.model,
        "Path of a sentencepiece .model, or of a Hugging Face tokenizer.json of BPE.")
      .as(SettingKind::kPath)
      .null_is("train one (with init_from: the tokenizer.model or tokenizer.json in its folder)");
  t.add(
      "tokenizer.allow_mismatch", &c.allow_mismatch,
      "With init_from: true accepts a tokenizer that does not belong to the weights. Its ids mean "
      "nothing to the given embedding and head.");
  t.section("tokenizer.train", "The tokenizer that is trained when none is given.");
  t.add("tokenizer.train.vocab_size", &c.train.vocab_size, "Number of pieces.")
      .range(32, 4'000'000)
      .null_is(
          "by the text to learn from: 1024 from 24 KB on, 2048 from 192 KB, 4096 from 1.5 MB, 8192 "
          "from 12 MB; more where its characters need more, and fewer where it has no more pieces",
          "auto")
      .used_if("tokenizer.model", {"null"});
  t.add("tokenizer.train.type", &c.train.type,
        "bpe and unigram give a sentencepiece model; byte_bpe gives a Hugging Face tokenizer.json "
        "of byte-level BPE, cut like Llama 3's.")
      .used_if("tokenizer.model", {"null"})
      .from("Kudo & Richardson 2018; byte_bpe: Radford et al. 2019");
  t.add("tokenizer.train.byte_fallback", &c.train.byte_fallback,
        "256 byte pieces, so that every text survives encoding and decoding; byte_bpe always has "
        "them.")
      .used_if("tokenizer.train.type", {TokenizerType::kBpe, TokenizerType::kUnigram});
  t.add("tokenizer.train.sample", &c.train.sample, "Bytes of text to learn from.")
      .as(SettingKind::kBytes)
      .range(1, 0x1p53)
      .used_if("tokenizer.model", {"null"});
  t.add("tokenizer.add_bos", &c.add_bos, "Begin each document with BOS.")
      .null_is(
          "what the given tokenizer's files say (add_bos_token, the template of tokenizer.json; a "
          "sentencepiece model with BOS alone: true); true for one that is trained",
          "auto");
  t.add("tokenizer.add_eos", &c.add_eos, "End each document with EOS.")
      .null_is("true, but for a given tokenizer that has no EOS", "auto");
}

struct DataSourceConfig {
  std::string path;      // file, folder or glob
  double weight = 1.0;   // how often an epoch sees the source; no effect in data.eval
  std::string set = {};  // the named set of data.eval that it belongs to; empty: none
  bool operator==(const DataSourceConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, DataSourceConfig& c) {
  t.add("path", &c.path, "File, folder or glob (* ? [] **).")
      .as(SettingKind::kPath)
      .must_be_given();
  t.add("weight", &c.weight, "How often an epoch sees the source: 1 once, 2 twice.")
      .range(1e-6, 1e6);
}

struct DataConfig {
  std::vector<DataSourceConfig> train;
  // Sources of evaluation text. Either each source has a set, or no source has one. none:
  // eval_fraction of `train` is held out.
  std::optional<std::vector<DataSourceConfig>> eval;
  double eval_fraction = 0.01;  // share of each source; 0: none
  DataFormat format = DataFormat::kAuto;
  std::string text_field = "text";
  OnBadLine on_bad_line = OnBadLine::kStop;    // of JSON lines
  TokenDtype token_dtype = TokenDtype::kAuto;  // of token files that do not say it
  int64_t max_document = int64_t{1} << 30;     // bytes of text; a larger document is an error
  std::string cache_dir = "cache";
  bool shuffle = true;
  std::optional<int64_t> seed;  // none: Config::seed
  bool operator==(const DataConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, DataConfig& c) {
  t.section("data", "The text to train on.");
  t.add("data.train", &c.train,
        "What to train on: files, folders and globs, each a path or {\"path\", \"weight\"}.")
      .must_be_given();
  t.add("data.eval", &c.eval,
        "What to evaluate on, in the same form, or an object of named sets of that form, such as "
        "{\"python\": \"a/**/*.py\", \"prose\": [\"b\"]}: figures are then given for all text, and "
        "for each set by its name. Every document counts once, whatever its weight.")
      .null_is("hold out eval_fraction of data.train");
  t.add("data.eval_fraction", &c.eval_fraction,
        "Share of each source held out for evaluation: documents chosen by a hash of their text, "
        "or blocks of documents where these are too few or too long. The share is raised, to a "
        "tenth at most, if it gives less than 64 KiB of text in all. Above 0, at least one block. "
        "0: none, and evaluations are skipped.")
      .below(0, 1)
      .used_if("data.eval", {"null"});
  t.add("data.format", &c.format,
        "Format of the files; auto: by extension, else by what the file holds. text: a file is a "
        "document; lines: a line is one; jsonl: text_field of each line; json: of each element of "
        "an array, or an array of texts; csv, tsv, parquet, arrow, mds: the column text_field of "
        "each row; tokens: ids, in token files or in the rows of tables.");
  t.add("data.text_field", &c.text_field,
        "The field or column that holds the text, or the token ids where it is not the default.")
      .used_if("data.format", {DataFormat::kAuto, DataFormat::kJsonl, DataFormat::kJson,
                               DataFormat::kCsv, DataFormat::kTsv, DataFormat::kParquet,
                               DataFormat::kArrow, DataFormat::kMds, DataFormat::kTokens});
  t.add("data.on_bad_line", &c.on_bad_line,
        "What to do with a line of JSON lines that is broken, has half of a surrogate pair, or "
        "whose field is missing or no string. stop: end with exit code 3; skip: leave it out and "
        "count it, up to 0.1 % of the lines of data.train or data.eval (of fewer than 1000 lines "
        "none).")
      .used_if("data.format", {DataFormat::kAuto, DataFormat::kJsonl});
  t.add("data.token_dtype", &c.token_dtype,
        "Type of the ids in token files that hold ids and nothing else. auto: uint32 for a "
        "vocabulary above 65536 pieces, else uint16; where the file could be either, it is an "
        "error; int64 in the bytes of an MDS shard.")
      .used_if("data.format", {DataFormat::kAuto, DataFormat::kMds, DataFormat::kTokens});
  t.add("data.max_document", &c.max_document,
        "Bytes of text that one document may have, or one line of JSON lines; a larger one is an "
        "error that names its file. A small compressed file may hold a very large document.")
      .as(SettingKind::kBytes)
      .range(1, 0x1p53)
      .used_if("data.format",
               {DataFormat::kAuto, DataFormat::kText, DataFormat::kLines, DataFormat::kJsonl,
                DataFormat::kJson, DataFormat::kCsv, DataFormat::kTsv, DataFormat::kParquet,
                DataFormat::kArrow, DataFormat::kMds, DataFormat::kTokens});
  t.add("data.cache_dir", &c.cache_dir,
        "Folder of token shards, keyed by a fingerprint of content, tokenizer and settings.")
      .as(SettingKind::kPath);
  t.add("data.shuffle", &c.shuffle, "false: documents in byte order of path, then position.");
  t.add("data.seed", &c.seed, "Seed of the order of data alone.").at_least(0).null_is("seed");
}

struct LengthScheduleConfig {
  LengthScheduleType type = LengthScheduleType::kGrowP2;
  int64_t cycles = 4;                                                  // grow_*
  TrainingDuration duration{100.0, TrainingDuration::Unit::kPercent};  // linear, root
  double root_degree = 2.0;                                            // root
  std::vector<int64_t> lengths;              // step: lengths[i] holds until boundaries[i],
  std::vector<TrainingDuration> boundaries;  //   after the last one max_length
  bool operator==(const LengthScheduleConfig&) const = default;
};

// Lengths of rows, and their caps, count targets.
struct SequenceConfig {
  int64_t max_length = 1024;
  int64_t min_length = 64;
  Batching batching = Batching::kBucket;
  BucketCut cut = BucketCut::kBalanced;
  LengthScheduleConfig schedule;
  // Returns whether rows have several lengths, each a power of two.
  bool has_buckets() const { return batching == Batching::kBucket || batching == Batching::kPad; }
  bool operator==(const SequenceConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, SequenceConfig& c) {
  using enum TrainingDuration::Unit;
  constexpr double kMaxLength = 1 << 24;
  t.section("sequence", "How documents become rows. Lengths count targets.");
  t.add("sequence.max_length", &c.max_length, "Longest row; a power of two for bucket and pad.")
      .range(1, kMaxLength)
      .null_is("the recipe's: by the text it sees, 128 to 1024; with optimizer.lr given: 1024",
               "auto")
      .default_is("auto: by the tokens of the run; 1024 where optimizer.lr or init_from is given");
  t.add("sequence.min_length", &c.min_length,
        "Shortest row, at most max_length; a power of two for bucket and pad.")
      .range(1, kMaxLength);
  t.add("sequence.batching", &c.batching,
        "bucket: sequences of 2^k targets of one document; pad: whole documents, padded to a power "
        "of two; pack: documents packed, attention kept inside each; concat: one stream cut at "
        "max_length.");
  t.add("sequence.cut", &c.cut,
        "How bucket cuts. balanced: lengths drawn so that every bucket gets about the same tokens; "
        "longest: largest first.")
      .used_if("sequence.batching", {Batching::kBucket});
  t.section("sequence.schedule", "The lengths over the run.");
  t.add("sequence.schedule.type", &c.schedule.type,
        "constant: as they come; linear, root, step: a cap that grows, rounded down to "
        "max_length/2^j; natural, grow_linear, grow_p2: the order of the buckets (bucket and pad "
        "only).")
      .default_is("grow_p2; constant when batching is pack or concat")
      .from("Pouransari et al. 2024, Dataset Decomposition");
  t.add("sequence.schedule.cycles", &c.schedule.cycles,
        "How often the run goes from short to long.")
      .range(1, 1'000'000)
      .default_is("1; 4 where optimizer.lr or init_from is given")
      .used_if("sequence.schedule.type",
               {LengthScheduleType::kGrowLinear, LengthScheduleType::kGrowP2});
  t.add("sequence.schedule.duration", &c.schedule.duration,
        "When the cap has grown from min_length to max_length.")
      .in_units({kSteps, kTokens, kPercent, kEpochs}, kSteps)
      .used_if("sequence.schedule.type", {LengthScheduleType::kLinear, LengthScheduleType::kRoot});
  t.add("sequence.schedule.root_degree", &c.schedule.root_degree,
        "2: the cap grows as the square root of progress.")
      .range(1, 100)
      .used_if("sequence.schedule.type", {LengthScheduleType::kRoot})
      .from("Platanios et al. 2019, Competence-based Curriculum Learning");
  t.add("sequence.schedule.lengths", &c.schedule.lengths,
        "The caps: lengths[i] holds until boundaries[i].")
      .range(1, kMaxLength)
      .used_if("sequence.schedule.type", {LengthScheduleType::kStep});
  t.add("sequence.schedule.boundaries", &c.schedule.boundaries,
        "Where each of lengths ends, increasing; after the last, max_length.")
      .in_units({kSteps, kTokens, kPercent, kEpochs}, kSteps)
      .used_if("sequence.schedule.type", {LengthScheduleType::kStep});
}

// This is transformers' rope_scaling (rope_parameters in transformers 5). A rope_type reads some of
// the fields (model/rope.h).
struct RopeScalingConfig {
  RopeType rope_type = RopeType::kDefault;
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;
  // The fields from here on are for yarn. Where attention_factor is none, factor, mscale and
  // mscale_all_dim give it. mscale and mscale_all_dim have an effect only together.
  std::optional<double> attention_factor = std::nullopt;
  std::optional<double> mscale = std::nullopt;
  std::optional<double> mscale_all_dim = std::nullopt;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;
  bool operator==(const RopeScalingConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, RopeScalingConfig& c) {
  using enum RopeType;
  const auto add = [&](const char* key, auto slot, std::initializer_list<RopeType> types,
                       const char* meaning) -> auto& {
    return t.add(key, slot, meaning).used_if("rope_type", types);
  };
  t.add("rope_type", &c.rope_type, "The rule.")
      .from("Chen et al. 2023; Dubey et al. 2024, Llama 3; Peng et al. 2023, YaRN");
  add("factor", &c.factor, {kLinear, kLlama3, kYarn}, "How much longer the context gets.")
      .at_least(1)
      .default_is("8 for llama3; linear and yarn need it");
  add("low_freq_factor", &c.low_freq_factor, {kLlama3},
      "Wavelengths above original / this are stretched in full.")
      .above(0);
  add("high_freq_factor", &c.high_freq_factor, {kLlama3}, "Wavelengths below original / this stay.")
      .above(0);
  add("original_max_position_embeddings", &c.original_max_position_embeddings, {kLlama3, kYarn},
      "The length before stretching.")
      .range(1, 0x1p40)
      .default_is(
          "max_position_embeddings beside it, else 8192 for llama3; yarn needs one of them");
  add("attention_factor", &c.attention_factor, {kYarn}, "Multiplies cosines and sines.")
      .above(0)
      .null_is(
          "0.1 ln(factor) + 1; with mscale and mscale_all_dim the ratio of 0.1 mscale ln(factor) + "
          "1 of the two");
  add("mscale", &c.mscale, {kYarn}, "Part of attention_factor, beside mscale_all_dim.")
      .at_least(0)
      .null_is("none");
  add("mscale_all_dim", &c.mscale_all_dim, {kYarn}, "Part of attention_factor, beside mscale.")
      .at_least(0)
      .null_is("none");
  add("beta_fast", &c.beta_fast, {kYarn}, "Pairs that turn more often in the original length stay.")
      .above(0)
      .null_is("32");
  add("beta_slow", &c.beta_slow, {kYarn},
      "Pairs that turn less often in the original length are stretched in full.")
      .above(0)
      .null_is("1");
  add("truncate", &c.truncate, {kYarn},
      "The pairs of beta_fast and beta_slow are rounded, outwards, to whole ones.");
}

// Names and meanings are those of transformers' LlamaConfig, Qwen3Config, Qwen2Config and
// MistralConfig. Only lmtrain has `size`, `initializer` (which matrices begin at zero), `dropout`
// and activation_checkpointing (the backward pass computes activations again, which saves memory).
// A Qwen3 is a Llama with QK-norm, and a Qwen2 a Llama with biases of queries, keys and values. A
// Mistral is a Llama, since rows are not longer than its window.
struct ModelConfig {
  ModelArchitecture model_type = ModelArchitecture::kLlama;
  std::optional<std::string> size;  // "auto" or parameters, "3M"; none once the shape is chosen
  int64_t hidden_size = 256;
  int64_t intermediate_size = 704;
  int64_t num_hidden_layers = 6;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 4;
  std::optional<int64_t> head_dim;  // none: hidden_size / num_attention_heads
  double rope_theta = 10000.0;
  std::optional<RopeScalingConfig> rope_scaling;
  std::optional<int64_t> sliding_window;  // mistral: positions; none: the whole row
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;
  Initializer initializer = Initializer::kNormal;
  std::optional<int64_t> vocab_size;  // none: the tokenizer's
  bool activation_checkpointing = false;
  double dropout = 0;  // probability, in training alone
  bool operator==(const ModelConfig&) const = default;

  bool has_qk_norm() const { return model_type == ModelArchitecture::kQwen3; }
  bool has_qkv_bias() const { return model_type == ModelArchitecture::kQwen2; }
  int64_t resolved_head_dim() const { return head_dim.value_or(hidden_size / num_attention_heads); }
};

// `prefix` is "model.", or "" for the table of transformers' config.json. Both tables also accept
// the keys of transformers' four classes that change nothing here.
template <class Table>
void add_settings(Table& t, ModelConfig& c, const std::string& prefix) {
  const auto add = [&](const char* key, auto slot, const char* meaning) -> auto& {
    return t.add(prefix + key, slot, meaning);
  };
  const auto accept = [&](const char* key, const std::vector<std::string>& values,
                          const char* meaning) {
    t.add(prefix + key, {}, meaning).as(SettingKind::kAccepted).choices = values;
  };
  add("model_type", &c.model_type,
      "The architecture of transformers: llama; qwen3, a Llama with a norm of each query and key "
      "head (QK-norm); qwen2, a Llama with biases of queries, keys and values; mistral, a Llama "
      "under another name.")
      .from("Dehghani et al. 2023; Yang et al. 2025, Qwen3; Qwen 2024; Jiang et al. 2023");
  if (!prefix.empty()) {  // transformers' config.json has no such key
    add("size", &c.size,
        "Parameters of the model, \"3M\" or \"124M\", embedding counted: the nearest shape of a "
        "family from 0.2M to 7B. auto: what the tokens or the time of the run can train. Parts of "
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
  if (!prefix.empty()) {  // transformers' config.json has no such keys
    add("initializer", &c.initializer,
        "normal: every matrix is drawn; zero_outputs: o_proj and down_proj begin at zero, so that "
        "layers add nothing at first.")
        .null_is("the recipe's: zero_outputs; with optimizer.lr given: normal", "auto")
        .used_if("init_from", {"null"})
        .from("Jordan et al. 2024, modded-nanogpt");
    add("dropout", &c.dropout,
        "Probability, in training alone, that an element falls out: of the weights of attention, "
        "and of what attention and the MLP add to the residual stream. Checkpoints and evaluations "
        "have none. Above 0 attention is computed as matrices, which takes longer.")
        .range(0, 0.5)
        .null_is("the recipe's: 0", "auto")
        .from("Srivastava et al. 2014");
  }
  add("vocab_size", &c.vocab_size, "Rows of the embedding; at least the tokenizer's pieces.")
      .range(1, 1 << 24)
      .null_is("the tokenizer's");
  add("activation_checkpointing", &c.activation_checkpointing,
      "Recompute activations in backward: less memory, slower.");

  t.add(prefix + "rope_parameters", {},
        "transformers 5's form of rope_theta and rope_scaling, read into them.")
      .as(SettingKind::kRopeParameters);
  accept("max_position_embeddings", {},
         "No effect here; checkpoints have sequence.max_length in its place.");
  accept("architectures",
         {"[\"LlamaForCausalLM\"]", "[\"Qwen3ForCausalLM\"]", "[\"Qwen2ForCausalLM\"]",
          "[\"MistralForCausalLM\"]", "null"},
         "The architecture, which model_type names.");
  accept("hidden_act", {"\"silu\"", "\"swish\""}, "The MLP is SwiGLU.");
  accept("attention_bias", {"false", "true"},
         "true of a qwen2, whose q_proj, k_proj and v_proj have biases; false of all others.");
  accept("mlp_bias", {"false"}, "Projections have no bias.");
  accept("attention_dropout", {"0"}, "A checkpoint has none; training has model.dropout.");
  accept("use_sliding_window", {"false"}, "Attention sees the whole row.");
  accept("max_window_layers", {}, "use_sliding_window says whether there is one.");
  t.add(prefix + "layer_types", {}, "Attention sees the whole row.")
      .as(SettingKind::kAccepted)
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

struct BatchConfig {
  int64_t tokens = 65536;               // positions in an optimizer step: rows x length
  std::optional<int64_t> micro_tokens;  // positions in a micro-batch; none: auto
  bool operator==(const BatchConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, BatchConfig& c) {
  constexpr double kMaxTokens = 0x1p31 - 1;  // a position in a batch is an int32
  t.section("batch", "How much one optimizer step sees.");
  t.add("batch.tokens", &c.tokens,
        "Positions an optimizer step, rows x length with padding, whatever the length; a multiple "
        "of sequence.max_length.")
      .as(SettingKind::kTokens)
      .range(1, kMaxTokens)
      .null_is("the recipe's: by the tokens of the run; with optimizer.lr given: 65536", "auto")
      .default_is("auto: by the tokens of the run; 65536 where optimizer.lr or init_from is given");
  t.add("batch.micro_tokens", &c.micro_tokens,
        "Positions a micro-batch: a multiple of sequence.max_length that divides batch.tokens. "
        "Fewer are taken where memory does not hold them.")
      .as(SettingKind::kTokens)
      .range(1, kMaxTokens)
      .null_is("about 8192 on a CPU, on a GPU what its memory holds, up to 65536", "auto");
}

// The defaults that depend on optimizer.type. The type takes exactly as many betas as are here.
struct OptimizerDefaults {
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.95;
  // These say which settings have an effect. has_eps: optimizer.eps. has_momentum:
  // optimizer.momentum and nesterov. follows_width: optimizer.base_width. It is true for Muon and
  // for rules whose step moves each weight by about lr: their best rate follows the width in a
  // known way.
  bool has_eps = true;
  bool has_momentum = false;
  bool follows_width = true;
};

// The table of optimizers. A line has an `optimizer.type`: its value, name and paper, when to use
// it (`config explain optimizer.type`), and what differs from OptimizerDefaults. src/optim/NAME.cpp
// defines the rule and its make_NAME() (optim/make_optimizer.h).
#define LMTRAIN_OPTIMIZERS(X)                                                                     \
  X(kAdamW, adamw, "Loshchilov & Hutter 2019",                                                    \
    "the usual choice, and the one that others are compared with", .betas = {0.9, 0.95})          \
  X(kLion, lion, "Chen et al. 2023",                                                              \
    "half of AdamW's state; takes a rate about 5 times lower and a decay as much higher",         \
    .betas = {0.9, 0.99}, .has_eps = false)                                                       \
  X(kSoap, soap, "Vyas et al. 2024",                                                              \
    "fewer steps, each dearer: it keeps bases of every matrix, which need time and memory",       \
    .betas = {0.95, 0.95}, .follows_width = false)                                                \
  X(kAdEMAMix, ademamix, "Pagliardini et al. 2024",                                               \
    "long runs: a third, slow moment that needs a warm-up; half more state",                      \
    .betas = {0.9, 0.999, 0.9999})                                                                \
  X(kMuon, muon, "Jordan 2024",                                                                   \
    "fewer steps to the same loss at most sizes; costs some matrix products a step, and keeps "   \
    "one state instead of two for matrices",                                                      \
    .has_momentum = true)                                                                         \
  X(kSgd, sgd, "Polyak 1964", "experiments; no second moment, and seldom good for transformers",  \
    .betas = {}, .momentum = 0.9, .has_eps = false, .has_momentum = true, .follows_width = false) \
  X(kRmsProp, rmsprop, "Tieleman & Hinton 2012", "experiments; AdamW without the first moment",   \
    .betas = {0.99})                                                                              \
  X(kAdam, adam, "Kingma & Ba 2015",                                                              \
    "comparisons with older work: decay is added to the gradient", .weight_decay = 0)             \
  X(kAdopt, adopt, "Taniguchi et al. 2024", "AdamW that converges with any second beta",          \
    .betas = {0.9, 0.9999}, .eps = 1e-6)                                                          \
  X(kMars, mars, "Yuan et al. 2024",                                                              \
    "AdamW on a gradient whose noise is lowered; keeps the last gradient too",                    \
    .betas = {0.95, 0.99})

// `optimizer.type`.
enum class OptimizerType {
#define LMTRAIN_VALUE(type, name, source, note, ...) type,
  LMTRAIN_OPTIMIZERS(LMTRAIN_VALUE)
#undef LMTRAIN_VALUE
};
constexpr auto enum_names(OptimizerType) {
  using enum OptimizerType;
#define LMTRAIN_NAME(type, name, source, note, ...) {type, #name},
  return std::to_array<EnumName<OptimizerType>>({LMTRAIN_OPTIMIZERS(LMTRAIN_NAME)});
#undef LMTRAIN_NAME
}

// The rows below use these. optimizers_with() returns the types whose `flag` is true.
// by_optimizer() returns a default in words, "0.1; adam 0", where `text` gives the words of one
// type. text_of() returns numbers as JSON, and "none" for an empty list. optimizer_sources()
// returns all papers.
std::vector<OptimizerType> optimizers_with(bool OptimizerDefaults::*flag);
std::string by_optimizer(const std::function<std::string(const OptimizerDefaults&)>& text);
std::string text_of(double number);
std::string text_of(const std::vector<double>& numbers);
std::string optimizer_sources();

struct OptimizerGroupConfig {
  std::string pattern;       // glob over HF tensor names; the first group that matches wins
  std::optional<double> lr;  // peak learning rate; none: optimizer.lr
  std::optional<double> weight_decay;  // none: the default (optim/parameter_groups.h)
  bool operator==(const OptimizerGroupConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, OptimizerGroupConfig& c) {
  t.add("pattern", &c.pattern, "Glob over the tensors' Hugging Face names.").must_be_given();
  t.add("lr", &c.lr, "Peak learning rate.").above(0).null_is("optimizer.lr");
  t.add("weight_decay", &c.weight_decay, "Weight decay.")
      .at_least(0)
      .null_is("optimizer.weight_decay");
}

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
  double lr = 1e-3;                         // at the peak of the schedule, times lr_factor
  double lr_factor = 1;                     // of lr and of the groups' lr
  std::vector<double> betas = {0.9, 0.95};  // optimizer_defaults() gives their number
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool cautious_decay = false;  // decay where the step goes towards zero, and nowhere else
  double momentum = 0.95;       // muon, sgd
  bool nesterov = true;         // muon, sgd
  int64_t ns_steps = 5;         // muon
  NsCoefficients ns_coefficients = NsCoefficients::kQuintic;               // muon
  AdjustLr adjust_lr = AdjustLr::kMatchRmsAdamW;                           // muon
  bool normuon = false;                                                    // muon
  double normuon_beta2 = 0.95;                                             // muon with normuon
  double alpha = 8.0;                                                      // ademamix
  TrainingDuration alpha_warmup{100.0, TrainingDuration::Unit::kPercent};  // ademamix; 0: none
  TrainingDuration beta3_warmup{100.0, TrainingDuration::Unit::kPercent};  // ademamix; 0: none
  int64_t precondition_frequency = 10;                                     // soap
  int64_t max_precond_dim = 10000;                                         // soap
  double gamma = 0.025;                                                    // mars
  std::vector<OptimizerGroupConfig> groups;
  std::optional<int64_t> base_width;  // none after parse_config, which writes it out as groups
  double peak_lr() const { return lr * lr_factor; }
  bool operator==(const OptimizerConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, OptimizerConfig& c) {
  using enum TrainingDuration::Unit;
  t.section("optimizer", "The update rule.");
  t.add("optimizer.type", &c.type,
        "muon: for hidden matrices; embeddings, head and one-dimensional tensors by adamw at the "
        "same lr.")
      .null_is("the recipe's: muon; with optimizer.lr given: adamw", "auto")
      .default_is("auto: muon; adamw where optimizer.lr or init_from is given")
      .from(optimizer_sources());
  t.add("optimizer.lr", &c.lr,
        "Peak learning rate, one for all tensors. Where it is given, lmtrain chooses nothing: the "
        "other settings have their defaults.")
      .above(0)
      .null_is("the recipe's: rates by the role of a tensor and by width (docs/recipe.md)", "auto")
      .default_is("auto: the recipe; 1e-3 with init_from");
  t.add("optimizer.lr_factor", &c.lr_factor,
        "Multiplies all learning rates: lr and the groups' lr, given or the recipe's.")
      .above(0);
  t.add("optimizer.betas", &c.betas,
        "Decay rates of the moments. Their number is fixed by the type.")
      .below(0, 1)
      .default_is(by_optimizer([](const OptimizerDefaults& d) { return text_of(d.betas); }));
  t.add("optimizer.eps", &c.eps,
        "Added to the root of the second moment; adopt: the least that the root counts as.")
      .above(0)
      .used_if("optimizer.type", optimizers_with(&OptimizerDefaults::has_eps))
      .default_is(by_optimizer([](const OptimizerDefaults& d) { return text_of(d.eps); }));
  t.add("optimizer.weight_decay", &c.weight_decay,
        "Decoupled decay, times the learning rate, of every tensor of two or more dimensions; "
        "adam: coupled, added to the gradient.")
      .at_least(0)
      .null_is("the recipe's: by the passes over the text; with optimizer.lr given: 0.1, adam 0",
               "auto")
      .default_is(by_optimizer([](const OptimizerDefaults& d) { return text_of(d.weight_decay); }) +
                  "; more where the recipe goes over the text several times");
  t.add("optimizer.cautious_decay", &c.cautious_decay,
        "Weight decay only of those weights that the update moves towards zero.")
      .from("Chen et al. 2025, Cautious Weight Decay");
  t.add("optimizer.momentum", &c.momentum, "Decay of the momentum.")
      .below(0, 1)
      .used_if("optimizer.type", optimizers_with(&OptimizerDefaults::has_momentum))
      .default_is(by_optimizer([](const OptimizerDefaults& d) { return text_of(d.momentum); }));
  t.add("optimizer.nesterov", &c.nesterov, "Whether the momentum is Nesterov's.")
      .used_if("optimizer.type", optimizers_with(&OptimizerDefaults::has_momentum));
  t.add("optimizer.ns_steps", &c.ns_steps, "Newton-Schulz iterations.")
      .range(1, 100)
      .used_if("optimizer.type", {OptimizerType::kMuon});
  t.add("optimizer.ns_coefficients", &c.ns_coefficients,
        "Coefficients of the Newton-Schulz iterations. quintic: the same in each; polar_express: "
        "its own for each, so that fewer iterations may do.")
      .used_if("optimizer.type", {OptimizerType::kMuon})
      .from("Jordan 2024; Amsel et al. 2025, The Polar Express");
  t.add("optimizer.adjust_lr", &c.adjust_lr,
        "Scale of a matrix' update. match_rms_adamw: as large as adamw's; original: by the ratio "
        "of its sides.")
      .used_if("optimizer.type", {OptimizerType::kMuon})
      .from("Liu et al. 2025, Muon is Scalable");
  t.add("optimizer.normuon", &c.normuon,
        "Rows of a matrix' update, one for each output neuron, divided by the root of their second "
        "moment.")
      .used_if("optimizer.type", {OptimizerType::kMuon})
      .from("Li et al. 2025, NorMuon");
  t.add("optimizer.normuon_beta2", &c.normuon_beta2, "Decay of NorMuon's second moment.")
      .below(0, 1)
      .used_if("optimizer.normuon", {"true"});
  t.add("optimizer.alpha", &c.alpha, "Weight of the slow momentum.")
      .at_least(0)
      .used_if("optimizer.type", {OptimizerType::kAdEMAMix});
  t.add("optimizer.alpha_warmup", &c.alpha_warmup, "Over what alpha grows from 0; 0: none.")
      .in_units({kSteps, kTokens, kPercent}, kSteps)
      .used_if("optimizer.type", {OptimizerType::kAdEMAMix});
  t.add("optimizer.beta3_warmup", &c.beta3_warmup,
        "Over what the third beta grows from the first; 0: none.")
      .in_units({kSteps, kTokens, kPercent}, kSteps)
      .used_if("optimizer.type", {OptimizerType::kAdEMAMix});
  t.add("optimizer.precondition_frequency", &c.precondition_frequency,
        "Steps between two eigenbases.")
      .range(1, 1'000'000)
      .used_if("optimizer.type", {OptimizerType::kSoap});
  t.add("optimizer.max_precond_dim", &c.max_precond_dim,
        "Sides longer than this are not preconditioned.")
      .range(1, 1'000'000'000)
      .used_if("optimizer.type", {OptimizerType::kSoap});
  t.add("optimizer.gamma", &c.gamma,
        "How much the gradient's change since the last update counts, times beta / (1 - beta).")
      .at_least(0)
      .used_if("optimizer.type", {OptimizerType::kMars})
      .from("Yuan et al. 2024, MARS");
  t.add("optimizer.groups", &c.groups,
        "Own lr and weight_decay for tensors by name; the first group that matches wins.");
  t.add("optimizer.base_width", &c.base_width,
        "The model.hidden_size that lr was found at. An untied head gets lr times base_width / "
        "model.hidden_size, and so do the layers' matrices, with muon times its root (adjust_lr "
        "original: lr itself). It is written out as groups; groups that are given win.")
      .range(1, 1'000'000)
      .used_if("optimizer.type", optimizers_with(&OptimizerDefaults::follows_width))
      .null_is("one lr for any width")
      .from("Yang et al. 2022, Tensor Programs V");
}

struct LrScheduleConfig {
  LrScheduleType type = LrScheduleType::kCosine;
  TrainingDuration warmup{1.0, TrainingDuration::Unit::kPercent};
  WarmupShape warmup_shape = WarmupShape::kLinear;
  double warmup_start = 0.01;  // learning rate at the beginning / peak
  double min_ratio = 0.1;      // learning rate at the end / peak
  TrainingDuration decay{20.0, TrainingDuration::Unit::kPercent};  // wsd: the last part of the run
  DecayShape decay_shape = DecayShape::kOneMinusSqrt;
  bool operator==(const LrScheduleConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, LrScheduleConfig& c) {
  using enum TrainingDuration::Unit;
  t.section("lr_schedule", "The learning rate over the run: its warm-up, its peak and its decay.");
  t.add("lr_schedule.type", &c.type,
        "How it falls after the warm-up; wsd holds the peak, then falls over decay.")
      .default_is("linear; cosine where optimizer.lr or init_from is given");
  t.add("lr_schedule.warmup", &c.warmup, "How long it rises.")
      .in_units({kSteps, kTokens, kPercent}, kSteps)
      .default_is("2%; 1% where optimizer.lr or init_from is given");
  t.add("lr_schedule.warmup_shape", &c.warmup_shape, "How it rises.");
  t.add("lr_schedule.warmup_start", &c.warmup_start, "Where it begins, as a share of the peak.")
      .range(0, 1);
  t.add("lr_schedule.min_ratio", &c.min_ratio, "Where it ends, as a share of the peak.")
      .range(0, 1)
      .default_is("0; 0.1 where optimizer.lr or init_from is given")
      .used_if("lr_schedule.type", {LrScheduleType::kCosine, LrScheduleType::kLinear,
                                    LrScheduleType::kSqrt, LrScheduleType::kWsd});
  t.add("lr_schedule.decay", &c.decay, "The last part of the run, in which it falls.")
      .in_units({kSteps, kTokens, kPercent}, kSteps)
      .used_if("lr_schedule.type", {LrScheduleType::kWsd});
  t.add("lr_schedule.decay_shape", &c.decay_shape, "How it falls there.")
      .used_if("lr_schedule.type", {LrScheduleType::kWsd})
      .from("Hägele et al. 2024");
}

struct LossConfig {
  double z_loss = 0.0;  // weight of the squared log of the softmax denominator
  bool operator==(const LossConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, LossConfig& c) {
  t.section("loss", "Cross-entropy, and what is added to it.");
  t.add("loss.z_loss", &c.z_loss, "Weight of the squared log of the softmax denominator.")
      .at_least(0)
      .from("Chowdhery et al. 2022, PaLM");
}

struct ClipConfig {
  ClipType type = ClipType::kNorm;
  double max = 1.0;
  bool operator==(const ClipConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, ClipConfig& c) {
  t.section("clip", "Limits of the gradient.");
  t.add("clip.type", &c.type, "norm: of all gradients together; value: of each number.");
  t.add("clip.max", &c.max, "The limit.")
      .above(0)
      .used_if("clip.type", {ClipType::kNorm, ClipType::kValue});
}

// Exactly one of steps, tokens, epochs and time has a value once the config is parsed. `time`
// becomes tokens when the run begins.
struct TrainConfig {
  std::optional<int64_t> steps;
  std::optional<int64_t> tokens = 20'000'000;  // targets
  std::optional<double> epochs;
  std::optional<double> time;      // seconds
  std::optional<double> max_time;  // seconds
  // Until batch replanned_at[i] the run was planned with planned_tokens[i], and after the last one
  // with `tokens`. Written by a run with train.time.
  std::vector<int64_t> planned_tokens, replanned_at;
  // When train.time is over, on the clock of the process that has begun the run. Not a setting.
  std::optional<std::chrono::steady_clock::time_point> ends_at;
  bool operator==(const TrainConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, TrainConfig& c) {
  constexpr double kMaxTokens = 0x1p53;
  t.section("train", "How long to train: one of steps, tokens, epochs and time.");
  t.add("train.steps", &c.steps, "Optimizer steps.")
      .range(1, kMaxTokens)
      .null_is("the length is not given in steps");
  t.add("train.tokens", &c.tokens, "Targets; the run ends at the first step that reaches them.")
      .as(SettingKind::kTokens)
      .range(1, kMaxTokens)
      .null_is("the length is not given in tokens")
      .default_is(
          "four passes over the text, at most 20M; 20M where optimizer.lr or init_from is given");
  t.add("train.epochs", &c.epochs, "Passes over the data.")
      .above(0)
      .null_is("the length is not given in epochs");
  t.add("train.time", &c.time,
        "How long training may take, counted from when the data are prepared. Some steps are "
        "measured, and the run gets the tokens that fit; its schedule ends there. The run's own "
        "config has the tokens.")
      .as(SettingKind::kDuration)
      .above(0)
      .null_is("the length is not given as a time");
  t.add("train.max_time", &c.max_time,
        "The process saves and exits with code 75 after this many seconds. They are counted from "
        "the time when the data are prepared, and include the planning of the batches.")
      .as(SettingKind::kDuration)
      .above(0)
      .null_is("no limit");
  t.add("train.planned_tokens", &c.planned_tokens,
        "Written by a run with train.time that became longer or shorter on its way: its earlier "
        "lengths, in targets. A run with these numbers is the same run.")
      .range(1, kMaxTokens);
  t.add("train.replanned_at", &c.replanned_at,
        "Until batch replanned_at[i] the run had planned_tokens[i].")
      .range(1, kMaxTokens);
}

struct GuardConfig {
  GuardPolicy on_nonfinite = GuardPolicy::kSkip;
  // The run ends at this many skips in a row, or after more rollbacks than this to one checkpoint.
  int64_t max_skips = 10;
  GuardPolicy on_spike = GuardPolicy::kOff;
  double spike_sigma = 6.0;  // in standard deviations above the mean of the window
  int64_t window = 128;      // updates in the window; each length has its own
  bool operator==(const GuardConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, GuardConfig& c) {
  t.section("guard", "What to do when training goes wrong.");
  t.add("guard.on_nonfinite", &c.on_nonfinite,
        "When the loss or the gradient is not finite. rollback: back to the last checkpoint, and "
        "on without the batch; stop: exit code 4; off: the step is applied all the same.");
  t.add("guard.max_skips", &c.max_skips,
        "The run ends with exit code 4 at this many skips in a row, or after more rollbacks than "
        "this to one checkpoint.")
      .range(1, 1'000'000);
  t.add("guard.on_spike", &c.on_spike,
        "When loss or gradient norm jumps above what is usual at the step's length.");
  t.add("guard.spike_sigma", &c.spike_sigma,
        "A step is a spike if its loss or gradient norm is more than this many standard deviations "
        "above the window's mean.")
      .above(0)
      .used_if("guard.on_spike", {GuardPolicy::kSkip, GuardPolicy::kRollback, GuardPolicy::kStop});
  t.add("guard.window", &c.window,
        "Updates in the window, of each length; judged once it is half full.")
      .range(2, 1'000'000)
      .used_if("guard.on_spike", {GuardPolicy::kSkip, GuardPolicy::kRollback, GuardPolicy::kStop});
}

struct RestartConfig {
  int64_t seeds = 1;  // trials; the best goes on; 1: no trials
  // The length of a trial. With on_divergence the held-out loss must have fallen by then.
  TrainingDuration tokens{2.0, TrainingDuration::Unit::kPercent};
  RestartVary vary = RestartVary::kAll;
  bool on_divergence = false;  // begin again with the next seed when a run does not converge
  int64_t max_attempts = 3;    // for on_divergence: runs in all; all trials of `seeds` count as one
  bool operator==(const RestartConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, RestartConfig& c) {
  using enum TrainingDuration::Unit;
  t.section("restart", "Several short trials; the best one is trained to the end.");
  t.add("restart.seeds", &c.seeds, "Number of trials; 1: no trials.").range(1, 10'000);
  t.add("restart.tokens", &c.tokens,
        "Length of a trial; with on_divergence also of the first part that must converge.")
      .in_units({kTokens, kPercent}, kTokens);
  t.add("restart.vary", &c.vary,
        "What a trial's seed changes; init: the weights but not the order of data.");
  t.add("restart.on_divergence", &c.on_divergence,
        "Begin again with the next seed when the guard ends a run, or its held-out loss at "
        "restart.tokens is not below the loss of step 0.");
  t.add("restart.max_attempts", &c.max_attempts, "Runs begun in all.")
      .range(1, 10'000)
      .used_if("restart.on_divergence", {"true"});
}

struct EarlyStopConfig {
  int64_t patience = 5;    // evaluations in a row
  double min_delta = 0.0;  // nats a target
  bool operator==(const EarlyStopConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, EarlyStopConfig& c) {
  t.add("patience", &c.patience,
        "The run ends after so many evaluations in a row that did not lower the lowest held-out "
        "loss so far by more than min_delta.")
      .range(1, 1'000'000);
  t.add("min_delta", &c.min_delta,
        "Nats a target; an evaluation that lowers the loss by this or less counts as none that "
        "lowers it.")
      .at_least(0);
}

// The cost of all evaluations of a run together, as a fraction of the FLOPs of its training, if
// eval.tokens is "auto".
inline constexpr double kMostEvalShare = 0.05;

struct EvalConfig {
  TrainingDuration every{5.0, TrainingDuration::Unit::kPercent};
  std::optional<int64_t> tokens;     // targets in an evaluation; none: auto
  std::optional<std::string> tasks;  // folder or file
  std::optional<EarlyStopConfig> early_stop;
  bool operator==(const EvalConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, EvalConfig& c) {
  using enum TrainingDuration::Unit;
  t.section("eval", "Evaluation during training; one always comes at the start and the end.");
  t.add("eval.every", &c.every,
        "How often; 0: never in between. In short runs the recipe chooses fewer evaluations.")
      .in_units({kSteps, kTokens, kPercent, kSeconds, kEpochs}, kSteps);
  t.add("eval.tokens", &c.tokens,
        "How much of the held-out text, in whole documents; of named sets of data.eval, a part of "
        "each.")
      .as(SettingKind::kTokens)
      .range(1, 0x1p53)
      .null_is(
          "at most 1000000, and so few that all evaluations together take about 5 % of the run, "
          "by a count of FLOPs; but at least 8192",
          "auto");
  t.add("eval.tasks", &c.tasks,
        "Questions with known answers that each evaluation asks too: a folder with a tasks.json, "
        "or one file of JSON lines.")
      .as(SettingKind::kPath)
      .null_is("none");
  t.add("eval.early_stop", &c.early_stop,
        "End the run when the held-out loss does not fall any more.")
      .null_is("train to the end");
}

struct CheckpointConfig {
  TrainingDuration every{5.0, TrainingDuration::Unit::kPercent};
  int64_t keep = 3;                                // so many of the newest stay
  std::optional<TrainingDuration> keep_every{};    // how often one is kept for good; none: never
  int64_t keep_best = 1;                           // so many with the lowest held-out loss stay
  CheckpointDType dtype = CheckpointDType::kFp32;  // of model.safetensors
  bool async = true;
  SaveErrorPolicy on_save_error = SaveErrorPolicy::kStop;
  bool operator==(const CheckpointConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, CheckpointConfig& c) {
  using enum TrainingDuration::Unit;
  t.section("checkpoint", "Saves; one always comes at the end.");
  t.add("checkpoint.every", &c.every, "How often; 0: never in between.")
      .in_units({kSteps, kTokens, kPercent, kSeconds, kEpochs}, kSteps);
  t.add("checkpoint.keep", &c.keep, "How many of the newest to keep.").range(1, 1'000'000);
  t.add("checkpoint.keep_every", &c.keep_every,
        "How often to save a checkpoint that is never removed. With lr_schedule.type wsd the "
        "checkpoint at which the decay begins is never removed either.")
      .in_units({kSteps, kTokens, kPercent, kSeconds, kEpochs}, kSteps)
      .null_is("none");
  t.add("checkpoint.keep_best", &c.keep_best,
        "How many of those with the lowest held-out loss to keep, beside the others. An evaluation "
        "that gives a new lowest loss saves one. Without held-out text it has no effect.")
      .range(0, 1'000'000);
  t.add("checkpoint.dtype", &c.dtype,
        "Format of the weights in model.safetensors. bf16: half the size there, and the fp32 "
        "weights that a resume needs lie in optimizer.safetensors.");
  t.add("checkpoint.async", &c.async, "Write while training goes on.");
  t.add("checkpoint.on_save_error", &c.on_save_error,
        "When a save fails, the disk full for example. continue: the run goes on, and keeps the "
        "lines of its logs in memory until they can be written.");
}

struct ParallelConfig {
  ParallelSum sum = ParallelSum::kFast;
  int64_t parts = 8;  // for sum exact: micro-batches a step, summed as a binary tree
  ParallelShard shard = ParallelShard::kOptimizer;
  double timeout = 600;  // seconds
  bool nccl = true;      // false: GPUs exchange through host memory
  bool operator==(const ParallelConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, ParallelConfig& c) {
  t.section("parallel", "Several processes that train one model together (docs/distributed.md).");
  t.add("parallel.sum", &c.sum,
        "How gradients are summed. fast: in the order that takes the least time; exact: in one "
        "order, whatever the number of processes, so that 1, 2, 4 ... up to parallel.parts of them "
        "compute the same bits.");
  t.add("parallel.parts", &c.parts,
        "Micro-batches a step, whose gradients are summed as a binary tree; a power of two.")
      .range(1, 1 << 16)
      .used_if("parallel.sum", {ParallelSum::kExact});
  t.add("parallel.shard", &c.shard,
        "What is divided among several processes, so that each holds only its part. none: nothing; "
        "optimizer: the optimizer's state, whose tensors it updates for all; parameters: weights "
        "and gradient too, which are gathered layer by layer.");
  t.add("parallel.timeout", &c.timeout,
        "A process that has ended, hangs or cannot be reached ends all others within this time.")
      .as(SettingKind::kDuration)
      .range(1, 86400 * 365);
  t.add("parallel.nccl", &c.nccl,
        "Whether GPUs exchange by NCCL, where all processes have it. false, in one process: "
        "through host memory and Gloo, which is slower.");
}

struct SamplesConfig {
  std::vector<std::string> prompts;
  int64_t max_tokens = 64;  // drawn for each prompt, at most
  bool operator==(const SamplesConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, SamplesConfig& c) {
  t.add("prompts", &c.prompts, "The texts that are continued.").must_be_given();
  t.add("max_tokens", &c.max_tokens, "How many tokens to draw for each prompt, at most.")
      .range(1, 1'000'000);
}

struct LogConfig {
  TrainingDuration every{10.0, TrainingDuration::Unit::kSteps};
  bool tensorboard = true;
  std::optional<SamplesConfig> samples{};
  std::optional<std::string> prometheus{};  // path of a text file; none: none is written
  double stall = 600;  // seconds without progress before the run says so, at least; 0: never
  bool operator==(const LogConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, LogConfig& c) {
  using enum TrainingDuration::Unit;
  t.section("log", "What a run says.");
  t.add("log.every", &c.every, "How often a line of progress; 0: never.")
      .in_units({kSteps, kTokens, kPercent, kSeconds, kEpochs}, kSteps);
  t.add("log.tensorboard", &c.tensorboard, "Write event files for TensorBoard.");
  t.add("log.samples", &c.samples,
        "At each evaluation the model continues these prompts by the likeliest tokens; the texts "
        "go into events.jsonl.")
      .null_is("none");
  t.add("log.prometheus", &c.prometheus,
        "A text file for Prometheus, such as one that the textfile collector of node_exporter "
        "reads (its name ends in .prom). It has the newest figures of the run, and is replaced at "
        "each step.")
      .as(SettingKind::kPath)
      .null_is("none");
  t.add("log.stall", &c.stall,
        "How long a run makes no progress before it says where it hangs, at least; 0: it never "
        "says so.")
      .as(SettingKind::kDuration)
      .range(0, 86400 * 365);
}

// Facts for the model card that lmtrain cannot know. none: the card leaves the fact out.
struct CardConfig {
  std::optional<std::string> license;
  std::optional<std::vector<std::string>> language;
  std::optional<std::vector<std::string>> datasets;
  bool operator==(const CardConfig&) const = default;
};

template <class Table>
void add_settings(Table& t, CardConfig& c) {
  t.section("card", "What the model card says that lmtrain cannot know.");
  t.add("card.license", &c.license,
        "Licence of the weights, by the hub's name for it, such as apache-2.0.")
      .null_is("the card names none");
  t.add("card.language", &c.language,
        "Languages of the text, by their codes, such as [\"en\", \"de\"].")
      .null_is("the card names none");
  t.add("card.datasets", &c.datasets,
        "Data sets that the text is from, by the hub's names for them.")
      .null_is("the card names none");
}

// ConfigOrigins says where each key was given: in which file and line, or in which --set. A key
// whose value is null, or the name of null ("auto"), counts as not given. operator== is always
// true: two configs that differ in their origins alone are equal.
struct ConfigOrigins {
  std::map<std::string, std::string>
      by_key;  // "optimizer.lr" or a section -> "run.json:12", "--set ..."
  std::map<std::string, std::string> chosen;  // a key that lmtrain chose -> why (config/recipe.h)
  bool by_person = false;  // a person wrote the config: it is no run's own config.json
  bool given(const std::string& key) const { return by_key.contains(key); }
  // Returns the origin of the key, else of the nearest section around it, else "".
  std::string origin(std::string key) const;
  bool operator==(const ConfigOrigins&) const { return true; }
};

struct Config {
  std::string name;  // default: the file's stem
  std::optional<std::string> run_dir;
  int64_t seed = 1337;
  std::optional<int64_t> threads;  // none: auto
  std::string device = "auto";     // auto | cpu | cuda | cuda:N
  PrecisionSetting precision = PrecisionSetting::kAuto;
  CompileMode compile = CompileMode::kAuto;
  bool deterministic = false;
  std::optional<std::string> init_from;
  std::optional<std::string> forecast;  // folder of `lmtrain forecast`
  TokenizerConfig tokenizer;
  DataConfig data;
  SequenceConfig sequence;
  ModelConfig model;
  BatchConfig batch;
  OptimizerConfig optimizer;
  LrScheduleConfig lr_schedule;
  LossConfig loss;
  ClipConfig clip;
  TrainConfig train;
  GuardConfig guard;
  RestartConfig restart;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  ParallelConfig parallel;
  LogConfig log;
  CardConfig card;
  ConfigOrigins origins;
  bool operator==(const Config&) const = default;

  int64_t data_seed() const { return data.seed.value_or(seed); }
  std::filesystem::path resolved_run_dir() const {
    return run_dir ? std::filesystem::path(*run_dir) : std::filesystem::path("runs") / name;
  }
};

// All settings, in the order of docs/config.md.
template <class Table>
void add_settings(Table& t, Config& c) {
  t.add("$schema", {}, "Names the JSON Schema, for editors. No effect.").as(SettingKind::kAccepted);
  t.add("digest", {},
        "Of a run's own config.json: the checksum of all its other keys, checked by resume and "
        "eval. No effect in other files.")
      .as(SettingKind::kAccepted);
  t.add("identity", {},
        "Of a run's own config.json: which run it is, and what it began from. No effect in other "
        "files.")
      .as(SettingKind::kAccepted);
  t.add("name", &c.name, "Name of the run; its folder is runs/<name> unless run_dir is given.")
      .as(SettingKind::kName)
      .default_is("the configuration file's stem");
  t.add("run_dir", &c.run_dir, "Folder of the run.").as(SettingKind::kPath).null_is("runs/<name>");
  t.add("seed", &c.seed,
        "Seed of initialisation and, unless data.seed is given, of the order of data.")
      .at_least(0);
  t.add("threads", &c.threads, "CPU threads.")
      .range(1, 4096)
      .null_is(
          "OMP_NUM_THREADS, else the processors this process may use, divided among the processes "
          "of the run that share them",
          "auto");
  t.add("device", &c.device, "Where to compute; auto: the best device present.")
      .as(SettingKind::kDevice);
  t.add("precision", &c.precision,
        "Format of the working weights and activations; master weights are always fp32. auto: bf16 "
        "where the device has it in hardware, else fp32. fp16: with dynamic loss scaling. fp8: as "
        "bf16, but the products with the layers' matrices take 8-bit operands; on NVIDIA GPUs of "
        "compute capability 8.9 or higher.");
  t.add("compile", &c.compile,
        "How the model runs. eager: its source as it stands, for debugging; script: compiled "
        "TorchScript; graph: script and a captured CUDA graph per shape, where one can be "
        "captured. All give the same bits.");
  t.add("deterministic", &c.deterministic,
        "Only operators that give the same bits each time, also where slower.");
  t.add("init_from", &c.init_from,
        "A Hugging Face Llama folder, a checkpoint, or a run (its best checkpoint) to take the "
        "weights from, and from its config.json the defaults of model; optimizer, step and data "
        "begin at 0.")
      .as(SettingKind::kPath)
      .null_is("random weights");
  t.add("forecast", &c.forecast,
        "A folder of `lmtrain forecast`: the run writes down the held-out loss that is expected of "
        "it, and says how far it is off.")
      .as(SettingKind::kPath)
      .null_is("no forecast");
  add_settings(t, c.tokenizer);
  add_settings(t, c.data);
  add_settings(t, c.sequence);
  t.section("model",
            "The Llama, by the names of transformers' LlamaConfig, Qwen3Config, Qwen2Config and "
            "MistralConfig, whose config.json can be pasted here.");
  add_settings(t, c.model, "model.");
  add_settings(t, c.batch);
  add_settings(t, c.optimizer);
  add_settings(t, c.lr_schedule);
  add_settings(t, c.loss);
  add_settings(t, c.clip);
  add_settings(t, c.train);
  add_settings(t, c.guard);
  add_settings(t, c.restart);
  add_settings(t, c.eval);
  add_settings(t, c.checkpoint);
  add_settings(t, c.log);
  add_settings(t, c.card);
  add_settings(t, c.parallel);
}

}  // namespace lmtrain
