// Decides how much held-out text an evaluation takes if `eval.tokens` is "auto", and computes the
// share of evaluations in a run. It counts FLOPs and measures no time: the same config, text and
// precision give the same number on every machine.
//
// An evaluation is only a forward, so its token costs a third of a token of training; times
// kFp32Factor if the run is in bf16, fp16 or fp8, since evaluations on a CPU are in fp32. The
// factor holds on a GPU too, so that the text of an evaluation does not depend on the device.
//
// All functions require a `config` that is resolved, except eval.tokens.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "prepare/prepare.h"

namespace lmtrain {

inline constexpr int64_t kMostEvalTokens = 1'000'000;  // of one evaluation
inline constexpr int64_t kLeastEvalTokens = 8192;      // of one evaluation, whatever its share
inline constexpr double kFp32Factor = 2.0;

// Resolves eval.tokens unless it is given: all evaluations together cost kMostEvalShare
// (config/config.h), but one evaluation takes kLeastEvalTokens to kMostEvalTokens. It does not look
// at the held-out text; if there is less text, an evaluation takes all.
void resolve_eval_tokens(Config& config, const PreparedData& data);

// Returns the tokens of the whole run, where a pass over the text has `text_tokens`: targets, or
// positions if train.steps is given. Returns 0 while the length is known only as a time.
double run_tokens(const Config& config, double text_tokens);
// Estimates how many evaluations a run with held-out text has, the first and the last included.
// Every position counts as a target, so that no batch needs to be planned. If `eval.every` is a
// duration of time, counts one every 5 % of the run.
double count_evaluations(const Config& config, const PreparedData& data);
// Returns the share of evaluations in all FLOPs of the run, training and evaluations, when each
// evaluation has `targets` targets: 0.1 is a tenth.
double evaluation_share(const Config& config, const PreparedData& data, int64_t targets);
// Returns how many tokens of training cost the FLOPs of one evaluation of `targets` targets.
double evaluation_cost(const Config& config, int64_t targets);

}  // namespace lmtrain
