// How many rows of a length go through the model at once: as many as batch.micro_tokens says, or
// fewer where memory does not hold those.
//
// The cut into micro-batches decides how sums are rounded. So what was lowered is part of the
// training state and stays for the rest of the run, resumes included, unless batch.micro_tokens
// itself is changed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "model/llama.h"

namespace lmtrain {

struct MicroBatchLimits {
  int64_t micro_tokens = 0;         // batch.micro_tokens when it was found
  std::map<int64_t, int64_t> rows;  // by length, where they are fewer than that gives
  bool operator==(const MicroBatchLimits&) const = default;
};

// A reduction of the rows of a length, for the log.
struct MicroBatchReduction {
  int64_t length = 0;
  int64_t rows_before = 0, rows = 0;
  std::string reason;
};
using ReportReduction = std::function<void(const MicroBatchReduction&)>;

// The rows of a micro-batch of this length, at least 1. `config` is resolved, here and below.
int64_t micro_rows(const Config& config, const MicroBatchLimits& fit, int64_t length);

// Halves the rows of a length. Error(kMemory) that says what takes how much, and which key to
// change, when there is one row already. `reason` is what went wrong.
MicroBatchReduction reduce_micro_rows(const Config& config, MicroBatchLimits& fit, int64_t length,
                                      const std::string& reason);

// Lowers rows until the memory plan of every length, the parts that are still to be allocated,
// keeps within `available` bytes. For a CPU, where there is no failing allocation to learn from but
// a kernel that ends the process. Error(kMemory) where one row is too much.
void fit_to_plan(const Config& config, const std::vector<int64_t>& lengths, uint64_t available,
                 MicroBatchLimits& fit, const ReportReduction& report);

// Which micro-batches are tried.
enum class TrialShapes {
  kLongest,  // for a CPU: one of the longest rows, which takes the most memory
  // For a GPU, whose libraries prepare themselves for each shape and refuse some: one of every
  // length, with the smaller one that ends a step where its rows do not divide the batch's.
  kAll,
};
// Runs forward and backward of micro-batches without a target, and lowers rows while that fails for
// want of memory. `lengths` ascend. `grad` is overwritten, which the first micro-batch of a step
// does anyway; nothing else changes, so no bit of the run depends on a trial that fits. Errors that
// are not about memory pass through.
void fit_by_trial(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                  const at::Tensor& grad, MicroBatchLimits& fit, const ReportReduction& report,
                  TrialShapes shapes);

// Both, as a run does before its first step: the plan on a CPU, then the trial. `sharers`: so many
// processes share the memory of the CPU.
void fit_memory(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                const at::Tensor& grad, MicroBatchLimits& fit, const ReportReduction& report,
                int sharers = 1);

// Rows that cost as much as rows of this length can: full, each one segment. Ids are 0, and there
// is no target.
Batch costliest_batch(const SequenceConfig& sequence, int64_t length, int64_t rows);

// Error(kMemory) when what a run holds from its beginning to its end is more than `available`
// bytes.
void require_memory(const Config& config, std::optional<uint64_t> available);
// Error(kMemory) when one row of sequence.max_length is more than `available` bytes leave beside
// that, by the plan. For what a CPU has before a run begins; fit_to_plan says it of a run that did.
void require_longest_row(const Config& config, std::optional<uint64_t> available);
// require_memory with what the device has, which then expects the run.
void prepare_memory(const Config& config);

// The memory that a run holds when micro-batches of this length have this many rows, part by part,
// and the one key to change; for the end of a message.
std::string explain_memory(const Config& config, int64_t length, int64_t rows);

}  // namespace lmtrain
