// How much held-out text an evaluation takes when `eval.tokens` is "auto", and what part of a run
// its evaluations are. Counted in FLOPs, never timed: the same config and text give the same number
// on every machine of the same precision.
//
// A token costs a third of a step's in an evaluation, which is a forward alone, and in fp32: on a
// CPU an evaluation of a run in bf16, fp16 or fp8 is kFp32Factor times as slow as a forward of the
// run's own.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "corpus/prepare.h"

namespace lmtrain {

inline constexpr double kMostEvalShare = 0.1;          // of the run
inline constexpr int64_t kMostEvalTokens = 1'000'000;  // of an evaluation
inline constexpr int64_t kLeastEvalTokens = 8192;      // whatever its share
inline constexpr double kFp32Factor = 2.0;

// eval.tokens made concrete; a number given is left as it is. `config` is resolved otherwise.
void resolve_eval_tokens(Config& config, const PreparedData& data);

// Evaluations of the run, the first and the last included, before its batches are planned: as if
// every position were a target. By the clock they are as many as every 5 % of the run.
double count_evaluations(const Config& config, const PreparedData& data);
// The part of the run that evaluations of `targets` each are: 0.1.
double evaluation_share(const Config& config, const PreparedData& data, int64_t targets);
// The cost of an evaluation of `targets`, in tokens of training.
double evaluation_cost(const Config& config, int64_t targets);

}  // namespace lmtrain
