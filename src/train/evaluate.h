// Loss over documents, exactly: the sum of nats over the sum of targets, whatever the batch size.
//
// A document longer than max_length is read in consecutive windows that share one token, so every
// target counts once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "formats/token_shard.h"
#include "model/llama.h"
#include "processes/processes.h"

namespace lmtrain {

struct EvalResult {
  double nats = 0;
  int64_t tokens = 0;  // targets
  int64_t bytes = 0;
  int64_t documents = 0;

  double loss() const;
  double perplexity() const;
  double bits_per_byte() const;
};

struct EvalOptions {
  int64_t max_length = 1024;
  int64_t batch_tokens = 8192;  // positions of a batch
  int64_t token_budget = 0;  // whole documents in the shard's order until this many targets; 0: all
};

// The targets of an evaluation with this token_budget.
int64_t evaluation_targets(const TokenShard& shard, int64_t token_budget);

// Shows how far it is on a terminal. Calls `keep_going` before each batch; when it returns false
// the evaluation is given up and nothing returned. Several processes compute a batch each in turn,
// and have the same result, to the bit that of one; one of them that does not keep going ends the
// evaluation of all. Errors as those of
// TokenShard::read_tokens and require_unchanged.
std::optional<EvalResult> evaluate(Llama& model, const TokenShard& shard,
                                   const EvalOptions& options,
                                   const std::function<bool()>& keep_going,
                                   Processes& processes = only_process());

}  // namespace lmtrain
