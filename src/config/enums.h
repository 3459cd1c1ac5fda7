// A setting that takes one of a few values has an enum here. enum_names() gives the names of its
// values for files, messages and output, in the order in which they are listed. No other file
// spells these names. OptimizerType, which has a table of its own, is in config.h.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace lmtrain {

template <class Enum>
struct EnumName {
  Enum value;
  std::string_view name;
};

// `precision`. When a run begins, another value replaces auto, here and in `compile`.
enum class PrecisionSetting { kAuto, kFp32, kBf16, kFp16, kFp8 };
constexpr auto enum_names(PrecisionSetting) {
  using enum PrecisionSetting;
  return std::to_array<EnumName<PrecisionSetting>>(
      {{kAuto, "auto"}, {kFp32, "fp32"}, {kBf16, "bf16"}, {kFp16, "fp16"}, {kFp8, "fp8"}});
}

// `compile`.
enum class CompileMode { kAuto, kEager, kScript, kGraph };
constexpr auto enum_names(CompileMode) {
  using enum CompileMode;
  return std::to_array<EnumName<CompileMode>>(
      {{kAuto, "auto"}, {kEager, "eager"}, {kScript, "script"}, {kGraph, "graph"}});
}

// `tokenizer.train.type`.
enum class TokenizerType { kBpe, kUnigram, kByteBpe };
constexpr auto enum_names(TokenizerType) {
  using enum TokenizerType;
  return std::to_array<EnumName<TokenizerType>>(
      {{kBpe, "bpe"}, {kUnigram, "unigram"}, {kByteBpe, "byte_bpe"}});
}

// `data.format`.
enum class DataFormat {
  kAuto,
  kText,
  kLines,
  kJsonl,
  kJson,
  kCsv,
  kTsv,
  kParquet,
  kArrow,
  kMds,
  kTokens
};
constexpr auto enum_names(DataFormat) {
  using enum DataFormat;
  return std::to_array<EnumName<DataFormat>>({{kAuto, "auto"},
                                              {kText, "text"},
                                              {kLines, "lines"},
                                              {kJsonl, "jsonl"},
                                              {kJson, "json"},
                                              {kCsv, "csv"},
                                              {kTsv, "tsv"},
                                              {kParquet, "parquet"},
                                              {kArrow, "arrow"},
                                              {kMds, "mds"},
                                              {kTokens, "tokens"}});
}

// `data.on_bad_line`.
enum class OnBadLine { kStop, kSkip };
constexpr auto enum_names(OnBadLine) {
  using enum OnBadLine;
  return std::to_array<EnumName<OnBadLine>>({{kStop, "stop"}, {kSkip, "skip"}});
}

// `data.token_dtype`.
enum class TokenDtype { kAuto, kUint16, kUint32 };
constexpr auto enum_names(TokenDtype) {
  using enum TokenDtype;
  return std::to_array<EnumName<TokenDtype>>(
      {{kAuto, "auto"}, {kUint16, "uint16"}, {kUint32, "uint32"}});
}

// `sequence.batching`.
enum class Batching { kBucket, kPad, kPack, kConcat };
constexpr auto enum_names(Batching) {
  using enum Batching;
  return std::to_array<EnumName<Batching>>(
      {{kBucket, "bucket"}, {kPad, "pad"}, {kPack, "pack"}, {kConcat, "concat"}});
}

// `sequence.cut`.
enum class BucketCut { kBalanced, kLongest };
constexpr auto enum_names(BucketCut) {
  using enum BucketCut;
  return std::to_array<EnumName<BucketCut>>({{kBalanced, "balanced"}, {kLongest, "longest"}});
}

// `sequence.schedule.type`.
enum class LengthScheduleType { kConstant, kLinear, kRoot, kStep, kNatural, kGrowLinear, kGrowP2 };
constexpr auto enum_names(LengthScheduleType) {
  using enum LengthScheduleType;
  return std::to_array<EnumName<LengthScheduleType>>({{kConstant, "constant"},
                                                      {kLinear, "linear"},
                                                      {kRoot, "root"},
                                                      {kStep, "step"},
                                                      {kNatural, "natural"},
                                                      {kGrowLinear, "grow_linear"},
                                                      {kGrowP2, "grow_p2"}});
}

// `rope_type` of `model.rope_scaling`.
enum class RopeType { kDefault, kLinear, kLlama3, kYarn };
constexpr auto enum_names(RopeType) {
  using enum RopeType;
  return std::to_array<EnumName<RopeType>>(
      {{kDefault, "default"}, {kLinear, "linear"}, {kLlama3, "llama3"}, {kYarn, "yarn"}});
}

// `model.model_type`: the architectures of transformers that lmtrain computes.
enum class ModelArchitecture { kLlama, kQwen3, kQwen2, kMistral };
constexpr auto enum_names(ModelArchitecture) {
  using enum ModelArchitecture;
  return std::to_array<EnumName<ModelArchitecture>>(
      {{kLlama, "llama"}, {kQwen3, "qwen3"}, {kQwen2, "qwen2"}, {kMistral, "mistral"}});
}

// Returns the name of transformers' class for this architecture.
constexpr const char* hf_class(ModelArchitecture type) {
  switch (type) {
    case ModelArchitecture::kQwen3:
      return "Qwen3ForCausalLM";
    case ModelArchitecture::kQwen2:
      return "Qwen2ForCausalLM";
    case ModelArchitecture::kMistral:
      return "MistralForCausalLM";
    case ModelArchitecture::kLlama:
      break;
  }
  return "LlamaForCausalLM";
}

// `model.initializer`.
enum class Initializer { kNormal, kZeroOutputs };
constexpr auto enum_names(Initializer) {
  using enum Initializer;
  return std::to_array<EnumName<Initializer>>(
      {{kNormal, "normal"}, {kZeroOutputs, "zero_outputs"}});
}

// `optimizer.ns_coefficients`.
enum class NsCoefficients { kQuintic, kPolarExpress };
constexpr auto enum_names(NsCoefficients) {
  using enum NsCoefficients;
  return std::to_array<EnumName<NsCoefficients>>(
      {{kQuintic, "quintic"}, {kPolarExpress, "polar_express"}});
}

// `optimizer.adjust_lr`.
enum class AdjustLr { kMatchRmsAdamW, kOriginal };
constexpr auto enum_names(AdjustLr) {
  using enum AdjustLr;
  return std::to_array<EnumName<AdjustLr>>(
      {{kMatchRmsAdamW, "match_rms_adamw"}, {kOriginal, "original"}});
}

// `lr_schedule.type`.
enum class LrScheduleType { kCosine, kLinear, kSqrt, kWsd, kConstant };
constexpr auto enum_names(LrScheduleType) {
  using enum LrScheduleType;
  return std::to_array<EnumName<LrScheduleType>>({{kCosine, "cosine"},
                                                  {kLinear, "linear"},
                                                  {kSqrt, "sqrt"},
                                                  {kWsd, "wsd"},
                                                  {kConstant, "constant"}});
}

// `lr_schedule.warmup_shape`.
enum class WarmupShape { kLinear, kSqrt, kCosine };
constexpr auto enum_names(WarmupShape) {
  using enum WarmupShape;
  return std::to_array<EnumName<WarmupShape>>(
      {{kLinear, "linear"}, {kSqrt, "sqrt"}, {kCosine, "cosine"}});
}

// `lr_schedule.decay_shape`.
enum class DecayShape { kLinear, kSqrt, kOneMinusSqrt, kCosine };
constexpr auto enum_names(DecayShape) {
  using enum DecayShape;
  return std::to_array<EnumName<DecayShape>>({{kLinear, "linear"},
                                              {kSqrt, "sqrt"},
                                              {kOneMinusSqrt, "one_minus_sqrt"},
                                              {kCosine, "cosine"}});
}

// `clip.type`.
enum class ClipType { kNorm, kValue, kNone };
constexpr auto enum_names(ClipType) {
  using enum ClipType;
  return std::to_array<EnumName<ClipType>>({{kNorm, "norm"}, {kValue, "value"}, {kNone, "none"}});
}

// `guard.on_nonfinite` and `guard.on_spike`.
enum class GuardPolicy { kSkip, kRollback, kStop, kOff };
constexpr auto enum_names(GuardPolicy) {
  using enum GuardPolicy;
  return std::to_array<EnumName<GuardPolicy>>(
      {{kSkip, "skip"}, {kRollback, "rollback"}, {kStop, "stop"}, {kOff, "off"}});
}

// `restart.vary`.
enum class RestartVary { kAll, kInit };
constexpr auto enum_names(RestartVary) {
  using enum RestartVary;
  return std::to_array<EnumName<RestartVary>>({{kAll, "all"}, {kInit, "init"}});
}

// `checkpoint.dtype`: the format of the weights in model.safetensors.
enum class CheckpointDType { kFp32, kBf16 };
constexpr auto enum_names(CheckpointDType) {
  using enum CheckpointDType;
  return std::to_array<EnumName<CheckpointDType>>({{kFp32, "fp32"}, {kBf16, "bf16"}});
}

// `checkpoint.on_save_error`.
enum class SaveErrorPolicy { kStop, kContinue };
constexpr auto enum_names(SaveErrorPolicy) {
  using enum SaveErrorPolicy;
  return std::to_array<EnumName<SaveErrorPolicy>>({{kStop, "stop"}, {kContinue, "continue"}});
}

// `parallel.sum`.
enum class ParallelSum { kFast, kExact };
constexpr auto enum_names(ParallelSum) {
  using enum ParallelSum;
  return std::to_array<EnumName<ParallelSum>>({{kFast, "fast"}, {kExact, "exact"}});
}

// `parallel.shard`.
enum class ParallelShard { kNone, kOptimizer, kParameters };
constexpr auto enum_names(ParallelShard) {
  using enum ParallelShard;
  return std::to_array<EnumName<ParallelShard>>(
      {{kNone, "none"}, {kOptimizer, "optimizer"}, {kParameters, "parameters"}});
}

template <class Enum>
concept NamedEnum = std::is_enum_v<Enum> && requires {
  enum_names(Enum{});
};

// Returns the name of the value. Throws Error(kInternal) for a number that is no value of the enum.
template <NamedEnum Enum>
std::string name_of(Enum value) {
  for (const EnumName<Enum>& entry : enum_names(Enum{})) {
    if (entry.value == value) return std::string(entry.name);
  }
  throw Error(ErrorKind::kInternal, "a setting has a value without a name");
}

// Returns the value with this name; nothing where no value has it.
template <NamedEnum Enum>
std::optional<Enum> value_named(std::string_view name) {
  for (const EnumName<Enum>& entry : enum_names(Enum{})) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

}  // namespace lmtrain
