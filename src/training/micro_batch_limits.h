// Decides how many rows of each length go through the model at once: the rows of
// batch.micro_tokens, or fewer if these do not fit into memory.
//
// The cut into micro-batches decides how sums are rounded. So lowered rows (MicroBatchLimits) are
// part of the training state, and stay for the rest of the run, resumes included. A change of
// batch.micro_tokens drops them.
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

// Halves the rows of `length` in `fit`, and returns the change with `reason`, what went wrong.
// Throws Error(kMemory) if there is only one row: the message explains the memory of one of
// `num_processes` (explain_memory).
MicroBatchReduction reduce_micro_rows(const Config& config, MicroBatchLimits& fit, int64_t length,
                                      const std::string& reason, int num_processes = 1);

// Halves rows until, for every length, the memory that a step still allocates fits into `available`
// bytes: MemoryPlan::of_positions() times kAllowance, micro_gradient and snapshot. It is for a CPU,
// where the kernel ends the process instead of refusing an allocation. Throws Error(kMemory) if one
// row does not fit even without the allowance.
void fit_to_plan(const Config& config, const std::vector<int64_t>& lengths, uint64_t available,
                 MicroBatchLimits& fit, const ReportReduction& report, int num_processes);

// Selects the micro-batches that fit_by_trial() tries.
enum class TrialShapes {
  kLongest,  // for a CPU: one micro-batch of the longest rows, which takes the most memory
  // For a GPU, whose libraries set up each shape and refuse some: one micro-batch of every length
  // and, if its rows do not divide the batch's, the smaller last one of a step.
  kAll,
};
// Runs forward and backward of micro-batches without a target. While memory runs out, it first
// calls keep_less(), and then halves rows. `lengths` ascend and are not empty. Overwrites `grad`,
// and nothing else, so the trial changes no bit of the run unless it lowers rows. Throws
// Error(kMemory) if one row does not fit; errors that are not about memory pass through.
void fit_by_trial(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                  const at::Tensor& grad, MicroBatchLimits& fit, const ReportReduction& report,
                  TrialShapes shapes, int num_processes = 1);

// Returns the swiglu_value_bytes() of the largest micro-batch of `fit`; 0 if that micro-batch, with
// kAllowance, and the value do not fit into kUsableOnGpu of `available` bytes. Weights, gradient
// and optimizer must be allocated already.
int64_t fitting_swiglu_value(const Config& config, const std::vector<int64_t>& lengths,
                             uint64_t available, const MicroBatchLimits& fit,
                             int num_processes = 1);
// Lets swiglu_linear keep its value (keep_swiglu_value of ops/operators.h) if it fits, and logs a
// note. No bit depends on it. It is for a GPU.
void keep_swiglu_value_if_it_fits(const Config& config, const std::vector<int64_t>& lengths,
                                  uint64_t available, const MicroBatchLimits& fit,
                                  int num_processes = 1);
// Stops keeping SwiGLU's value, for the rest of the process, and logs a note. Call it after an
// allocation has failed. Returns whether the value was kept: then the same rows may fit.
bool keep_less();

// Returns whether the largest micro-batch of `fit`, with kAllowance and SwiGLU's value where it is
// kept, takes at most half of `available` bytes. A trial then tells nothing: the first step of each
// length sets up what libraries need, and a step that fails all the same is made again with fewer
// rows. Weights, gradient and optimizer must be allocated already.
bool fits_with_ease(const Config& config, const std::vector<int64_t>& lengths, uint64_t available,
                    const MicroBatchLimits& fit, int num_processes = 1);

// Fits the rows of a run before its first step: fit_to_plan on a CPU, keep_swiglu_value_if_it_fits
// on a GPU, then fit_by_trial unless a GPU fits_with_ease. Each process takes its part of the
// available memory (memory_share of training/resolve.h).
void fit_memory(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                const at::Tensor& grad, MicroBatchLimits& fit, const ReportReduction& report,
                const Processes& processes = only_process());

// Returns `rows` rows of this length that cost the most: each is full and one segment. Ids are 0,
// and there is no target.
Batch costliest_batch(const SequenceConfig& sequence, int64_t length, int64_t rows);

// These four check the memory plan of one of `num_processes` before the run allocates it. They
// throw Error(kMemory) if it needs more than `available` bytes, and pass without `available`.
//
// Adds up weights, gradient and optimizer alone.
void require_memory(const Config& config, std::optional<uint64_t> available, int num_processes);
// The same, with the memory that is available now on the config's device.
void require_memory(const Config& config, int num_processes);
// Is about host memory: rank 0 needs MemoryPlan::reading bytes of it to read weights.
void require_memory_to_read(const Config& config, std::optional<uint64_t> available,
                            int num_processes);
// Adds up the whole plan with one row of sequence.max_length, snapshot included. It is for a CPU;
// once the run has allocated, fit_to_plan() makes the same check.
void require_longest_row(const Config& config, std::optional<uint64_t> available,
                         int num_processes);

// Returns a text for the end of a message: the memory plan of one of `num_processes` with
// micro-batches of `rows` rows of `length`, part by part, and the one key to change.
std::string explain_memory(const Config& config, int64_t length, int64_t rows,
                           int num_processes = 1);

}  // namespace lmtrain
