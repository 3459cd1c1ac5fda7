// Decides how much held-out text an evaluation takes when `eval.tokens` is "auto", and computes
// what part of a run its evaluations are. Costs are counted in FLOPs, never timed: the same config
// and text give the same number on every machine with the same precision.
//
// An evaluation is a forward alone, so a token costs a third of a token of training. When the run
// is in bf16, fp16 or fp8, the cost is multiplied by kFp32Factor, since evaluations on a CPU are in
// fp32. The factor holds on a GPU too, so that the text of an evaluation does not depend on the
// device.
//
// All functions require a `config` that is resolved, but for eval.tokens.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "prepare/prepare.h"

namespace lmtrain {

inline constexpr double kMostEvalShare = 0.1;          // all evaluations, of the FLOPs of training
inline constexpr int64_t kMostEvalTokens = 1'000'000;  // one evaluation
inline constexpr int64_t kLeastEvalTokens = 8192;      // one evaluation, whatever its share
inline constexpr double kFp32Factor = 2.0;

// Makes eval.tokens concrete; a number given is left as it is. How much held-out text there is has
// no influence: where there is less, an evaluation takes all of it.
void resolve_eval_tokens(Config& config, const PreparedData& data);

// Estimates how many evaluations the run has if it has held-out text: the first and the last, and
// those between. Every position counts as a target, so that no batch needs to be planned. Where
// `eval.every` is a duration of time, one every 5 % of the run is counted.
double count_evaluations(const Config& config, const PreparedData& data);
// Returns the share of evaluations in all FLOPs of the run, training and evaluations, when each
// evaluation has `targets` targets: 0.1 is a tenth.
double evaluation_share(const Config& config, const PreparedData& data, int64_t targets);
// Returns how many tokens of training cost the FLOPs of one evaluation of `targets` targets.
double evaluation_cost(const Config& config, int64_t targets);

}  // namespace lmtrain
