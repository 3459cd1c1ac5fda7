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

// How many evaluations the run has, the first and the last included. Its batches need not be
// planned: every position counts as a target. Where `eval.every` is a duration of time, as many as
// with 5 %.
double count_evaluations(const Config& config, const PreparedData& data);
// The part of all FLOPs of the run that its evaluations take when each has `targets` targets: 0.1
// is a tenth.
double evaluation_share(const Config& config, const PreparedData& data, int64_t targets);
// The FLOPs of an evaluation of `targets` targets, as the number of training tokens that cost as
// much.
double evaluation_cost(const Config& config, int64_t targets);

}  // namespace lmtrain
