// Computes the mean loss over documents: the sum of nats divided by the number of targets, whatever
// the batch size.
//
// Every token of a document but its first is a target. A document with more than max_length targets
// is read in consecutive windows that share one token, so every target counts once.
//
// The same pass computes the sums of each set of documents (prepare/eval_sets.h) and of each bucket
// of document lengths. Bucket N, a power of two, holds the documents of more than N/2 and at most N
// targets. The first bucket, of min_length, also holds all shorter documents, and the last, of
// max_length, all longer ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "batching/batch.h"
#include "config/config.h"
#include "device/device.h"
#include "distributed/processes.h"
#include "formats/token_shard.h"
#include "model/llama.h"
#include "prepare/eval_sets.h"

namespace lmtrain {

// Holds sums over the documents of an evaluation; `bytes` counts their raw text. The three ratios
// are NaN if the divisor is 0.
struct EvalResult {
  double nats = 0;
  int64_t tokens = 0;  // targets
  int64_t bytes = 0;
  int64_t documents = 0;

  double loss() const;
  double perplexity() const;
  double bits_per_byte() const;
};

// Holds the sums of one set, or of one bucket of document lengths, whose name is "length_N".
struct EvalPart {
  std::string name;
  EvalResult result;
};

// Holds the sums of all documents, and the sums of each part that has a target. The nats of the
// parts add up to the nats of all, but for rounding.
struct Evaluation {
  EvalResult all;
  std::vector<EvalPart> sets{};     // in the order of EvalSets::names
  std::vector<EvalPart> lengths{};  // ascending
};

struct EvalOptions {
  // A window has at most so many targets: from 1 to the model's max_length().
  int64_t max_length = 1024;
  int64_t batch_tokens = 8192;  // rows x length of a batch, padding included; one row at least
  // An evaluation takes whole documents until they hold `token_budget` targets or more
  // (choose_documents of prepare/eval_sets.h).
  int64_t token_budget = 0;  // 0: all documents
  int64_t min_length = 64;   // the least bucket of document lengths
};

// Returns how a run evaluates: windows of sequence.max_length, in batches of the size of a
// micro-batch of that length. On a CPU a batch has at most the default of EvalOptions: evaluations
// there are in fp32, and micro-batches are fitted to the precision of the run. `config` is
// resolved.
EvalOptions evaluation_options(const Config& config, const MicroBatchLimits& micro);

// Returns the precision of evaluations of a run that trains in `training`: fp32 on a CPU. On a GPU,
// where fp32 has no fast units, it is the precision of the working weights (bf16 for fp8), and sums
// are in fp32.
Precision evaluation_precision(const Precision& training, const at::Device& device);

// Returns how many targets evaluate() counts with this token_budget and these sets.
int64_t evaluation_targets(const TokenShard& shard, int64_t token_budget, const EvalSets& sets);

// evaluate() throws UnreadRows in all processes if one of them could not read its rows, or the data
// have changed meanwhile. In that process it has the kind and the message of the error.
class UnreadRows : public Error {
 public:
  explicit UnreadRows(const Error& own) : Error(own), is_own_(true) {}
  UnreadRows() : Error(ErrorKind::kData, "another process could not read its held-out rows") {}
  // Returns whether this process has the error.
  bool is_own() const { return is_own_; }

 private:
  bool is_own_ = false;
};

// Evaluates `model`, in its own precision, on the documents that `options` takes, and shows the
// progress on a terminal. `sets` has the set of each document. Sums of products are in fp32
// (Fp32Sums of ops/matmul.h). Calls `keep_going` before each batch; returns nothing if that returns
// false in any process. All processes call this together and compute the batches in turn. Each gets
// the bits that one process alone would get. Throws UnreadRows for the errors of
// TokenShard::read_tokens and require_unchanged, and the errors of `processes` and of `keep_going`.
std::optional<Evaluation> evaluate(Llama& model, const TokenShard& shard, const EvalSets& sets,
                                   const EvalOptions& options,
                                   const std::function<bool()>& keep_going,
                                   Processes& processes = only_process());

}  // namespace lmtrain
