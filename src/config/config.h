// Every setting of a run, as plain data. The field's meaning, default and range are stated once, in
// config/settings.cpp, from which the parser, `config schema`, `config explain` and docs/config.md
// come. The names are those of the JSON file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/enums.h"

namespace lmtrain {

// A stretch of a run: "500 steps", "10M" tokens, "2%" of the run, "90s", "2 epochs". What a bare
// number means is up to the key.
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
  std::optional<std::string> model;  // path of a sentencepiece .model; none: train one
  TokenizerTrainConfig train;
  bool allow_mismatch = false;  // with init_from: a tokenizer that is not that of the weights
  bool add_bos = true;
  bool add_eos = true;
  bool operator==(const TokenizerConfig&) const = default;
};

struct DataSourceConfig {
  std::string path;  // file, folder or glob
  double weight = 1.0;
  bool operator==(const DataSourceConfig&) const = default;
};

struct DataConfig {
  std::vector<DataSourceConfig> train;
  std::optional<std::vector<DataSourceConfig>> eval;  // none: hold out eval_fraction of train
  double eval_fraction = 0.01;
  DataFormat format = DataFormat::kAuto;
  std::string text_field = "text";
  std::string cache_dir = "cache";
  bool shuffle = true;
  std::optional<int64_t> seed;
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

struct SequenceConfig {
  int64_t max_length = 1024;
  int64_t min_length = 64;
  Batching batching = Batching::kBucket;
  BucketCut cut = BucketCut::kBalanced;
  LengthScheduleConfig schedule;
  bool operator==(const SequenceConfig&) const = default;
};

// transformers' rope_scaling (rope_parameters in transformers 5) of type llama3 or default.
struct RopeScalingConfig {
  RopeType rope_type = RopeType::kDefault;
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;
  bool operator==(const RopeScalingConfig&) const = default;
};

// Names and meanings of transformers' LlamaConfig.
struct ModelConfig {
  int64_t hidden_size = 256;
  int64_t intermediate_size = 704;
  int64_t num_hidden_layers = 6;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 4;
  std::optional<int64_t> head_dim;  // none: hidden_size / num_attention_heads
  double rope_theta = 10000.0;
  std::optional<RopeScalingConfig> rope_scaling;
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;
  std::optional<int64_t> vocab_size;  // none: the tokenizer's
  bool activation_checkpointing = false;
  bool operator==(const ModelConfig&) const = default;

  int64_t resolved_head_dim() const { return head_dim.value_or(hidden_size / num_attention_heads); }
};

struct BatchConfig {
  int64_t tokens = 65536;               // positions an optimizer step: rows x length
  std::optional<int64_t> micro_tokens;  // positions a micro-batch; none: auto
  bool operator==(const BatchConfig&) const = default;
};

struct OptimizerGroupConfig {
  std::string pattern;  // glob over HF tensor names; the first group that matches wins
  std::optional<double> lr;
  std::optional<double> weight_decay;
  bool operator==(const OptimizerGroupConfig&) const = default;
};

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  std::vector<double> betas_end;        // at the end of the run; none: as at its begin
  double weight_decay_end_ratio = 1.0;  // to weight_decay
  EndShape end_shape = EndShape::kLinear;
  double momentum = 0.95;                                                  // muon
  bool nesterov = true;                                                    // muon
  int64_t ns_steps = 5;                                                    // muon
  AdjustLr adjust_lr = AdjustLr::kMatchRmsAdamW;                           // muon
  double alpha = 8.0;                                                      // ademamix
  TrainingDuration alpha_warmup{100.0, TrainingDuration::Unit::kPercent};  // ademamix; 0: none
  TrainingDuration beta3_warmup{100.0, TrainingDuration::Unit::kPercent};  // ademamix; 0: none
  int64_t precondition_frequency = 10;                                     // soap
  int64_t max_precond_dim = 10000;                                         // soap
  std::vector<OptimizerGroupConfig> groups;
  bool operator==(const OptimizerConfig&) const = default;
};

struct LrScheduleConfig {
  LrScheduleType type = LrScheduleType::kCosine;
  TrainingDuration warmup{1.0, TrainingDuration::Unit::kPercent};
  WarmupShape warmup_shape = WarmupShape::kLinear;
  double warmup_start = 0.01;
  double min_ratio = 0.1;
  TrainingDuration decay{20.0, TrainingDuration::Unit::kPercent};
  DecayShape decay_shape = DecayShape::kOneMinusSqrt;
  bool operator==(const LrScheduleConfig&) const = default;
};

struct LossConfig {
  double z_loss = 0.0;
  bool operator==(const LossConfig&) const = default;
};

struct ClipConfig {
  ClipType type = ClipType::kNorm;
  double max = 1.0;
  bool operator==(const ClipConfig&) const = default;
};

// Exactly one of steps, tokens, epochs holds a value.
struct TrainConfig {
  std::optional<int64_t> steps;
  std::optional<int64_t> tokens = 20'000'000;
  std::optional<double> epochs;
  std::optional<double> max_time;  // seconds
  bool operator==(const TrainConfig&) const = default;
};

struct GuardConfig {
  GuardPolicy on_nonfinite = GuardPolicy::kSkip;
  int64_t max_skips = 10;
  GuardPolicy on_spike = GuardPolicy::kOff;
  double spike_sigma = 6.0;
  int64_t window = 128;
  bool operator==(const GuardConfig&) const = default;
};

struct RestartConfig {
  int64_t seeds = 1;
  TrainingDuration tokens{2.0, TrainingDuration::Unit::kPercent};
  RestartVary vary = RestartVary::kAll;
  bool on_divergence = false;
  int64_t max_attempts = 3;
  bool operator==(const RestartConfig&) const = default;
};

struct EvalConfig {
  TrainingDuration every{5.0, TrainingDuration::Unit::kPercent};
  std::optional<int64_t> tokens;  // of an evaluation; none: auto
  bool operator==(const EvalConfig&) const = default;
};

struct CheckpointConfig {
  TrainingDuration every{5.0, TrainingDuration::Unit::kPercent};
  int64_t keep = 3;
  std::optional<TrainingDuration> keep_every;
  bool async = true;
  SaveErrorPolicy on_save_error = SaveErrorPolicy::kStop;
  bool operator==(const CheckpointConfig&) const = default;
};

struct ParallelConfig {
  ParallelSum sum = ParallelSum::kFast;
  int64_t parts = 8;  // exact: micro-batches a step, the leaves of the tree of sums
  ParallelShard shard = ParallelShard::kNone;
  double timeout = 600;  // seconds
  bool operator==(const ParallelConfig&) const = default;
};

struct LogConfig {
  TrainingDuration every{10.0, TrainingDuration::Unit::kSteps};
  bool tensorboard = true;
  bool operator==(const LogConfig&) const = default;
};

// Where the keys that were given stand, for messages that name file and line. It is no part of the
// configuration: two that differ in it alone are equal.
struct ConfigOrigins {
  std::map<std::string, std::string>
      by_key;  // "optimizer.lr" or a section -> "run.json:12", "--set ..."
  bool given(const std::string& key) const { return by_key.contains(key); }
  // The origin of the key, else of the nearest section around it; empty when nothing is known.
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
  ConfigOrigins origins;
  bool operator==(const Config&) const = default;

  int64_t data_seed() const { return data.seed.value_or(seed); }
  std::filesystem::path resolved_run_dir() const {
    return run_dir ? std::filesystem::path(*run_dir) : std::filesystem::path("runs") / name;
  }
};

}  // namespace lmtrain
