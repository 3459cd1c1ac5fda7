// Computes the mean loss over documents exactly: the sum of nats divided by the number of targets,
// whatever the batch size.
//
// Every token of a document but its first is a target. A document with more than max_length targets
// is read in consecutive windows that share one token, so every target counts once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "device/device.h"
#include "formats/token_shard.h"
#include "model/llama.h"
#include "processes/processes.h"

namespace lmtrain {

// Holds sums over the documents of an evaluation; `bytes` are those of their raw text. The three
// ratios are NaN where the divisor is 0.
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
  // A window has at most so many targets: from 1 to the model's max_length().
  int64_t max_length = 1024;
  int64_t batch_tokens = 8192;  // rows x length of a batch, padding included; one row at least
  // Whole documents are taken in the shard's order until they hold `token_budget` targets or more.
  int64_t token_budget = 0;  // 0: all documents
};

// Returns the precision of evaluations of a run that trains in `training`: fp32 on a CPU. On a GPU,
// where fp32 has no fast units, it is that of the working weights (bf16 for fp8), and sums are in
// fp32.
Precision evaluation_precision(const Precision& training, const at::Device& device);

// Returns how many targets evaluate() counts with this token_budget.
int64_t evaluation_targets(const TokenShard& shard, int64_t token_budget);

// Evaluates `model`, in its own precision, on the documents that `options` takes, and shows its
// progress on a terminal. Sums of products are in fp32 (Fp32Sums of ops/matmul.h). `keep_going` is
// called before each batch; when it returns false, the evaluation stops and nothing is returned.
// Several processes call this together and compute the batches in turn; each gets the bits that one
// process alone would get, and nothing when `keep_going` is false in any of them. Throws the errors
// of TokenShard::read_tokens and require_unchanged, of `processes` and of `keep_going`.
std::optional<EvalResult> evaluate(Llama& model, const TokenShard& shard,
                                   const EvalOptions& options,
                                   const std::function<bool()>& keep_going,
                                   Processes& processes = only_process());

}  // namespace lmtrain
