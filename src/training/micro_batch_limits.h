// Decides how many rows of a length go through the model at once: the rows of batch.micro_tokens,
// or fewer where memory does not hold them.
//
// The cut into micro-batches decides how sums are rounded. So the lowered numbers of rows are part
// of the training state, and stay for the rest of the run, resumes included. The trainer drops them
// when batch.micro_tokens itself is changed.
//
// `config` is resolved everywhere here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "distributed/processes.h"
#include "model/llama.h"

namespace lmtrain {

using ReportReduction = std::function<void(const MicroBatchReduction&)>;

// Halves the rows of a length in `fit` and returns the change. `reason` is what went wrong. Throws
// Error(kMemory) when there is one row already; it says what takes how much, and which key to
// change, in one of `num_processes`.
MicroBatchReduction reduce_micro_rows(const Config& config, MicroBatchLimits& fit, int64_t length,
                                      const std::string& reason, int num_processes = 1);

// Lowers rows until, for every length, the parts of the memory plan that are allocated later fit
// into `available` bytes: activations and logits with an allowance of half their size, the gradient
// of a micro-batch and the snapshot. It serves a CPU, where the kernel ends the process instead of
// refusing an allocation. Throws Error(kMemory) where one row does not fit even without the
// allowance.
void fit_to_plan(const Config& config, const std::vector<int64_t>& lengths, uint64_t available,
                 MicroBatchLimits& fit, const ReportReduction& report, int num_processes);

// Selects the micro-batches that are tried.
enum class TrialShapes {
  kLongest,  // for a CPU: one of the longest rows, which takes the most memory
  // This serves a GPU, whose libraries prepare themselves for each shape and refuse some: one
  // micro-batch of every length is tried, and the smaller one that ends a step where its rows do
  // not divide the batch's.
  kAll,
};
// Runs forward and backward of micro-batches without a target, and keeps less (keep_less), then
// lowers rows, while that fails for want of memory. `lengths` ascend and are not empty. `grad` is
// overwritten, which the first micro-batch of a step does anyway; nothing else changes, so no bit
// of the run depends on a trial that fits. Throws Error(kMemory) where one row does not fit; errors
// that are not about memory pass through.
void fit_by_trial(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                  const at::Tensor& grad, MicroBatchLimits& fit, const ReportReduction& report,
                  TrialShapes shapes, int num_processes = 1);

// Returns the bytes of SwiGLU's value (swiglu_value_bytes of training/memory_plan.h) of the largest
// micro-batch of `fit`; 0 where the value does not fit beside that micro-batch, with fit_to_plan's
// allowance, into the usable part (kUsableOnGpu) of `available` bytes. Weights, gradient and
// optimizer are allocated already.
int64_t fitting_swiglu_value(const Config& config, const std::vector<int64_t>& lengths,
                             uint64_t available, const MicroBatchLimits& fit,
                             int num_processes = 1);
// Lets swiglu_linear keep its value (keep_swiglu_value of ops/operators.h) where it fits, and says
// so in a note. No bit depends on it. It serves a GPU.
void keep_swiglu_value_if_it_fits(const Config& config, const std::vector<int64_t>& lengths,
                                  uint64_t available, const MicroBatchLimits& fit,
                                  int num_processes = 1);
// Gives up what is kept although it could be computed again, for the rest of the process, after an
// allocation has failed, and says so in a note. Returns whether there was any: then it is worth
// trying the same rows again.
bool keep_less();

// Does what a run does before its first step: fit_to_plan on a CPU, keep_swiglu_value_if_it_fits on
// a GPU, then fit_by_trial. The processes that share the memory (sharers_of_memory of
// training/resolve.h) divide what is available.
void fit_memory(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                const at::Tensor& grad, MicroBatchLimits& fit, const ReportReduction& report,
                const Processes& processes = only_process());

// Returns rows that cost as much as rows of this length can: each is full and one segment. Ids are
// 0, and there is no target.
Batch costliest_batch(const SequenceConfig& sequence, int64_t length, int64_t rows);

// Throws Error(kMemory) when weights, gradient and optimizer alone need more than `available` bytes
// in a run of `num_processes`. An unknown amount is no error, here and below.
void require_memory(const Config& config, std::optional<uint64_t> available, int num_processes);
// Throws Error(kMemory) when the whole memory plan with one row of sequence.max_length at once, the
// snapshot included, needs more than `available` bytes. It serves a CPU before anything of the run
// is allocated; afterwards fit_to_plan finds the same.
void require_longest_row(const Config& config, std::optional<uint64_t> available,
                         int num_processes);
// Calls require_memory with the memory that the device has available, and then expect_memory
// (device/device_memory.h) with the plan of the run.
void prepare_memory(const Config& config, int num_processes = 1);

// Returns a text for the end of a message: the memory that one of `num_processes` holds when
// micro-batches of this length have this many rows, part by part, and the one key to change.
std::string explain_memory(const Config& config, int64_t length, int64_t rows,
                           int num_processes = 1);

}  // namespace lmtrain
