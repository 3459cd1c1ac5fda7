#include "training/micro_batch_limits.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "device/device_memory.h"
#include "device/failure.h"
#include "device/torch_headers.h"
#include "ops/operators.h"
#include "training/memory_plan.h"
#include "training/resolve.h"
#include "training/step.h"

namespace lmtrain {
namespace {

// Returns the plan of the device's memory. On a GPU the copy for a checkpoint is not in it.
MemoryPlan plan_of(const Config& config, int64_t length, int64_t rows, int num_processes) {
  MemoryPlan plan = plan_memory(config, precision_of(config), rows * length, num_processes);
  if (!device_of(config).is_cpu()) plan.snapshot = 0;
  return plan;
}

// Returns the bytes of a micro-batch by the plan, with an allowance for what the plan does not
// know.
double with_allowance(const MemoryPlan& plan, double allowance = kAllowance) {
  return allowance * static_cast<double>(plan.of_positions()) +
         static_cast<double>(plan.micro_gradient);
}

int64_t of_micro_batch(const MemoryPlan& plan) { return plan.of_positions() + plan.micro_gradient; }

std::string size_text(int64_t bytes) { return format_bytes(static_cast<uint64_t>(bytes)); }

// Returns advice: the key whose change saves most memory.
std::string key_to_change(const Config& config, const MemoryPlan& plan, int64_t length,
                          int64_t rows) {
  if (config.checkpoint.async && plan.snapshot > of_micro_batch(plan))
    return "set checkpoint.async to false";
  if (of_micro_batch(plan) > plan.device_total() / 2) {
    if (rows > 1)
      return str("lower batch.micro_tokens (now ", *config.batch.micro_tokens, ") to ",
                 std::max<int64_t>(1, rows / 2) * length, " or less");
    if (plan.activations > plan.logits && !config.model.activation_checkpointing)
      return "set model.activation_checkpointing to true";
    return str("lower sequence.max_length (now ", config.sequence.max_length, ")");
  }
  return str("lower model.hidden_size (now ", config.model.hidden_size,
             ") or another of the model's sizes");
}

// Returns the text of a plan, part by part, and the one key to change.
std::string explain_plan(const Config& config, const MemoryPlan& plan, int64_t length,
                         int64_t rows) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, int64_t bytes) {
    if (bytes > 0) parts.push_back(str(what, " ", size_text(bytes)));
  };
  add("weights", plan.weights + plan.working_weights);
  add("gradient", plan.gradient + plan.micro_gradient);
  add("optimizer state", plan.optimizer);
  add("copy for checkpoints", plan.snapshot);
  add("activations", plan.activations);
  add("logits", plan.logits);
  add("operators", plan.temporaries);
  add("update", plan.update);
  return str("the plan for ", counted(rows, "row"), " of length ", length,
             " at once: ", join(parts, ", "), "; ", key_to_change(config, plan, length, rows));
}

struct LargestMicroBatch {
  double bytes = 0;          // with the allowance, and with SwiGLU's value if it is kept
  int64_t swiglu_value = 0;  // its largest, in bytes
};

LargestMicroBatch largest_micro_batch(const Config& config, const std::vector<int64_t>& lengths,
                                      const MicroBatchLimits& fit, bool keeps_value,
                                      int num_processes) {
  LargestMicroBatch largest;
  for (const int64_t length : lengths) {
    const int64_t rows = micro_rows(config, fit, length);
    const int64_t value =
        keeps_value ? swiglu_value_bytes(config, precision_of(config), rows * length) : 0;
    const double bytes = with_allowance(plan_of(config, length, rows, num_processes));
    largest.bytes = std::max(largest.bytes, bytes + static_cast<double>(value));
    largest.swiglu_value = std::max(largest.swiglu_value, value);
  }
  return largest;
}

[[noreturn]] void refuse_one_row(const Config& config, int64_t length, const std::string& reason,
                                 int num_processes) {
  throw Error(ErrorKind::kMemory, str("one row of length ", length, " does not fit: ", reason, "; ",
                                      explain_memory(config, length, 1, num_processes)));
}

// Returns why micro-batches of `rows` rows, and a last one of `rest`, do not fit; nothing if they
// fit.
std::optional<std::string> shortage_of(const Config& config, Llama& model, int64_t length,
                                       int64_t rows, int64_t rest, const at::Tensor& grad) {
  try {
    accumulate_batch(model, costliest_batch(config.sequence, length, rows + rest), rows * length,
                     grad);
    return std::nullopt;
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    if (failure.kind != ErrorKind::kMemory) throw;
    return failure.cause;
  }
}

}  // namespace

std::string explain_memory(const Config& config, int64_t length, int64_t rows, int num_processes) {
  return explain_plan(config, plan_of(config, length, rows, num_processes), length, rows);
}

MicroBatchReduction reduce_micro_rows(const Config& config, MicroBatchLimits& fit, int64_t length,
                                      const std::string& reason, int num_processes) {
  const int64_t rows = micro_rows(config, fit, length);
  if (rows == 1) refuse_one_row(config, length, reason, num_processes);
  fit.micro_tokens = *config.batch.micro_tokens;
  fit.rows[length] = rows / 2;
  return {length, rows, rows / 2, reason};
}

void fit_to_plan(const Config& config, const std::vector<int64_t>& lengths, uint64_t available,
                 MicroBatchLimits& fit, const ReportReduction& report, int num_processes) {
  for (const int64_t length : lengths) {
    const int64_t before = micro_rows(config, fit, length);
    int64_t rows = before;
    const auto needed = [&](double allowance) {
      const MemoryPlan plan = plan_of(config, length, rows, num_processes);
      return with_allowance(plan, allowance) + static_cast<double>(plan.snapshot);
    };
    const auto room = static_cast<double>(available);
    while (rows > 1 && needed(kAllowance) > room) rows /= 2;
    if (rows == 1 && needed(1) > room) {
      refuse_one_row(config, length,
                     str(size_text(static_cast<int64_t>(needed(kAllowance))),
                         " wanted for the largest micro-batch, ", format_bytes(available),
                         " of memory available"),
                     num_processes);
    }
    if (rows == before) continue;
    fit.micro_tokens = *config.batch.micro_tokens;
    fit.rows[length] = rows;
    report({length, before, rows, str(format_bytes(available), " of memory available")});
  }
}

void fit_by_trial(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                  const at::Tensor& grad, MicroBatchLimits& fit, const ReportReduction& report,
                  TrialShapes shapes, int num_processes) {
  const bool all = shapes == TrialShapes::kAll;
  // First the smallest micro-batch: libraries then allocate what they keep for each thread
  // (handles, workspaces, code of kernels) before memory is full.
  if (all) shortage_of(config, model, lengths.front(), 1, 0, grad);
  for (auto length = lengths.rbegin(); length != lengths.rend(); ++length) {
    const auto shortage = [&] {
      const int64_t rows = micro_rows(config, fit, *length);
      const int64_t rest = all ? config.batch.tokens / *length % rows : 0;
      return shortage_of(config, model, *length, rows, rest, grad);
    };
    while (const auto reason = shortage()) {
      reset_peak_memory(model.device());
      if (!keep_less()) report(reduce_micro_rows(config, fit, *length, *reason, num_processes));
    }
    if (!all) break;
  }
}

void fit_memory(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                const at::Tensor& grad, MicroBatchLimits& fit, const ReportReduction& report,
                const Processes& processes) {
  const at::Device device = model.device();
  if (const std::optional<uint64_t> share = memory_share(device, processes)) {
    if (device.is_cpu()) {
      fit_to_plan(config, lengths, *share, fit, report, processes.count());
    } else {
      keep_swiglu_value_if_it_fits(config, lengths, *share, fit, processes.count());
      if (fits_with_ease(config, lengths, *share, fit, processes.count())) return;
    }
  }
  fit_by_trial(config, model, lengths, grad, fit, report,
               device.is_cpu() ? TrialShapes::kLongest : TrialShapes::kAll, processes.count());
}

int64_t fitting_swiglu_value(const Config& config, const std::vector<int64_t>& lengths,
                             uint64_t available, const MicroBatchLimits& fit, int num_processes) {
  const auto [most, value] = largest_micro_batch(config, lengths, fit, true, num_processes);
  return most <= kUsableOnGpu * static_cast<double>(available) ? value : 0;
}

bool fits_with_ease(const Config& config, const std::vector<int64_t>& lengths, uint64_t available,
                    const MicroBatchLimits& fit, int num_processes) {
  constexpr double kWithEase = 0.5;
  const auto [most, value] =
      largest_micro_batch(config, lengths, fit, keeps_swiglu_value(), num_processes);
  return most <= kWithEase * static_cast<double>(available);
}

void keep_swiglu_value_if_it_fits(const Config& config, const std::vector<int64_t>& lengths,
                                  uint64_t available, const MicroBatchLimits& fit,
                                  int num_processes) {
  const int64_t value = fitting_swiglu_value(config, lengths, available, fit, num_processes);
  keep_swiglu_value(value > 0);
  if (keeps_swiglu_value()) {
    log_note(str("SwiGLU's value is kept for the backward: ", size_text(value),
                 " fit beside the largest micro-batch"));
  }
}

bool keep_less() {
  const bool kept = keeps_swiglu_value();
  keep_swiglu_value(false);
  if (kept) {
    log_note(
        "memory runs out: SwiGLU's value is not kept from now on, but computed again in the "
        "backward, to the same bits");
  }
  return kept;
}

Batch costliest_batch(const SequenceConfig& sequence, int64_t length, int64_t rows) {
  Batch batch;
  batch.length = length;
  batch.rows = rows;
  const auto num_positions = static_cast<size_t>(rows * length);
  batch.inputs.assign(num_positions, 0);
  batch.targets.assign(num_positions, kNoTarget);
  if (sequence.batching == Batching::kPack) {
    for (int64_t row = 0; row < rows; ++row)
      batch.segments.push_back(static_cast<int32_t>(row * length));
  }
  return batch;
}

void require_memory(const Config& config, std::optional<uint64_t> available, int num_processes) {
  if (!available) return;
  const int64_t length = config.sequence.max_length;
  MemoryPlan plan = plan_of(config, length, 1, num_processes);
  plan.snapshot = 0;  // it comes later, and is judged then
  const int64_t fixed = plan.device_total() - of_micro_batch(plan);
  if (static_cast<uint64_t>(fixed) <= *available) return;
  throw Error(ErrorKind::kMemory,
              str("out of memory before the first step: weights, gradient and optimizer take ",
                  size_text(fixed), ", ", format_bytes(*available), " are available; ",
                  explain_plan(config, plan, length, 1)));
}

void require_memory(const Config& config, int num_processes) {
  require_memory(config, available_memory(device_of(config)), num_processes);
}

void require_memory_to_read(const Config& config, std::optional<uint64_t> available,
                            int num_processes) {
  const auto needed = static_cast<uint64_t>(plan_of(config, 1, 1, num_processes).reading);
  if (!available || needed <= *available) return;
  throw Error(ErrorKind::kMemory,
              str("out of memory before the weights are read: with parallel.shard \"parameters\" "
                  "rank 0 reads all of them into host memory, ",
                  format_bytes(needed), ", and ", format_bytes(*available),
                  " are available; start rank 0 on a machine with more memory, or set "
                  "parallel.shard to \"optimizer\""));
}

void require_longest_row(const Config& config, std::optional<uint64_t> available,
                         int num_processes) {
  if (!available) return;
  const int64_t length = config.sequence.max_length;
  const MemoryPlan plan = plan_of(config, length, 1, num_processes);
  const int64_t needed = plan.device_total() + plan.snapshot;
  if (static_cast<uint64_t>(needed) <= *available) return;
  refuse_one_row(config, length,
                 str("the run takes ", size_text(needed), " with it, ", format_bytes(*available),
                     " of memory available"),
                 num_processes);
}

}  // namespace lmtrain
