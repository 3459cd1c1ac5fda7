// Config holds every setting of a run, as plain data. The table of settings (config/settings.h)
// states the meaning and range of each setting once. The parser, `config schema`, `config explain`
// and docs/config.md are made from this table. The structs here have the defaults and the names of
// the JSON file.
#pragma once

#include <cstdint>
#include <filesystem>
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

struct TokenizerTrainConfig {
  int64_t vocab_size = 8192;
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
  // None means auto. A given tokenizer's own files then decide; a trained tokenizer adds both. The
  // config of a run has the values (prepare/given_tokenizer.h).
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  bool operator==(const TokenizerConfig&) const = default;
};

struct DataSourceConfig {
  std::string path;      // file, folder or glob
  double weight = 1.0;   // how often an epoch sees the source; without effect in data.eval
  std::string set = {};  // the named set of data.eval that it belongs to; empty: none
  bool operator==(const DataSourceConfig&) const = default;
};

struct DataConfig {
  std::vector<DataSourceConfig> train;
  // Sources of evaluation text; either all of them have a set or none has. Without sources,
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
  bool operator==(const SequenceConfig&) const = default;
};

// This is transformers' rope_scaling (rope_parameters in transformers 5). A rope_type reads some of
// the fields (model/rope.h).
struct RopeScalingConfig {
  RopeType rope_type = RopeType::kDefault;
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;
  // Parts of yarn. Without attention_factor it follows from factor, mscale and mscale_all_dim; one
  // of these two has no effect without the other.
  std::optional<double> attention_factor = std::nullopt;
  std::optional<double> mscale = std::nullopt;
  std::optional<double> mscale_all_dim = std::nullopt;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;
  bool operator==(const RopeScalingConfig&) const = default;
};

// Names and meanings are as in transformers' LlamaConfig, Qwen3Config, Qwen2Config and
// MistralConfig, but for two settings that these lack. activation_checkpointing saves memory: the
// backward pass computes activations again. `initializer` says which matrices begin at zero. A
// Qwen3 is a Llama with a norm of each query and key head (QK-norm), and a Qwen2 a Llama with
// biases of queries, keys and values. A Mistral is a Llama, since rows are not longer than its
// window.
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

struct BatchConfig {
  int64_t tokens = 65536;               // positions in an optimizer step: rows x length
  std::optional<int64_t> micro_tokens;  // positions in a micro-batch; none: auto
  bool operator==(const BatchConfig&) const = default;
};

struct OptimizerGroupConfig {
  std::string pattern;       // glob over HF tensor names; the first group that matches wins
  std::optional<double> lr;  // peak learning rate; none: optimizer.lr
  std::optional<double> weight_decay;  // none: the default (optim/parameter_groups.h)
  bool operator==(const OptimizerGroupConfig&) const = default;
};

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
  double lr = 1e-3;                         // at the peak of the schedule
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
  bool operator==(const OptimizerConfig&) const = default;
};

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

struct LossConfig {
  double z_loss = 0.0;  // weight of the squared log of the softmax denominator
  bool operator==(const LossConfig&) const = default;
};

struct ClipConfig {
  ClipType type = ClipType::kNorm;
  double max = 1.0;
  bool operator==(const ClipConfig&) const = default;
};

// Exactly one of steps, tokens, epochs and time has a value once the config is parsed. `time`
// becomes tokens when the run begins.
struct TrainConfig {
  std::optional<int64_t> steps;
  std::optional<int64_t> tokens = 20'000'000;  // targets
  std::optional<double> epochs;
  std::optional<double> time;      // seconds
  std::optional<double> max_time;  // seconds
  bool operator==(const TrainConfig&) const = default;
};

struct GuardConfig {
  GuardPolicy on_nonfinite = GuardPolicy::kSkip;
  // The run ends after so many skips in a row, or after more than so many rollbacks to one
  // checkpoint.
  int64_t max_skips = 10;
  GuardPolicy on_spike = GuardPolicy::kOff;
  double spike_sigma = 6.0;  // a spike is so many standard deviations above the window's mean
  int64_t window = 128;      // updates in the window; each length has its own
  bool operator==(const GuardConfig&) const = default;
};

struct RestartConfig {
  int64_t seeds = 1;  // trials; the best goes on; 1: no trials
  // The length of a trial; with on_divergence also of a run's first part, which must converge.
  TrainingDuration tokens{2.0, TrainingDuration::Unit::kPercent};
  RestartVary vary = RestartVary::kAll;
  bool on_divergence = false;  // begin again with the next seed when a run does not converge
  int64_t max_attempts = 3;    // on_divergence: in all; the first is all trials of `seeds`
  bool operator==(const RestartConfig&) const = default;
};

struct EarlyStopConfig {
  int64_t patience = 5;    // evaluations in a row
  double min_delta = 0.0;  // nats a target
  bool operator==(const EarlyStopConfig&) const = default;
};

struct EvalConfig {
  TrainingDuration every{5.0, TrainingDuration::Unit::kPercent};
  std::optional<int64_t> tokens;     // targets in an evaluation; none: auto
  std::optional<std::string> tasks;  // folder or file
  std::optional<EarlyStopConfig> early_stop;
  bool operator==(const EvalConfig&) const = default;
};

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

struct ParallelConfig {
  ParallelSum sum = ParallelSum::kFast;
  int64_t parts = 8;  // for sum exact: micro-batches in a step, the leaves of the tree of sums
  ParallelShard shard = ParallelShard::kOptimizer;
  double timeout = 600;  // seconds
  bool nccl = true;      // false: GPUs exchange through host memory
  bool operator==(const ParallelConfig&) const = default;
};

struct SamplesConfig {
  std::vector<std::string> prompts;
  int64_t max_tokens = 64;  // drawn for each prompt, at most
  bool operator==(const SamplesConfig&) const = default;
};

struct LogConfig {
  TrainingDuration every{10.0, TrainingDuration::Unit::kSteps};
  bool tensorboard = true;
  std::optional<SamplesConfig> samples{};
  std::optional<std::string> prometheus{};  // path of a text file; none: none is written
  double stall = 600;  // seconds without progress before the run says so, at least; 0: never
  bool operator==(const LogConfig&) const = default;
};

// What the model card says that lmtrain cannot know. None: the card does not say it.
struct CardConfig {
  std::optional<std::string> license;
  std::optional<std::vector<std::string>> language;
  std::optional<std::vector<std::string>> datasets;
  bool operator==(const CardConfig&) const = default;
};

// ConfigOrigins says for messages where each given key is: in which file and line, or in which
// --set. A key whose value is null, or the name of null ("auto"), counts as not given. Origins are
// no part of the configuration: two configs that differ in them alone are equal.
struct ConfigOrigins {
  std::map<std::string, std::string>
      by_key;  // "optimizer.lr" or a section -> "run.json:12", "--set ..."
  std::map<std::string, std::string> chosen;  // a key that lmtrain chose -> why (config/recipe.h)
  bool is_written = false;  // a person wrote the config: it is no run's own config.json
  bool given(const std::string& key) const { return by_key.contains(key); }
  // Returns the origin of the key, else the origin of the nearest section around it; empty when
  // nothing is known.
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

}  // namespace lmtrain
