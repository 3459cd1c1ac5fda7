// Estimates the memory of a run from shapes alone: the bytes that it allocates once, and the bytes
// of one micro-batch. Allocators round up, and matrix libraries have workspaces of their own.
#pragma once

#include <cstdint>
#include <optional>

#include "config/config.h"
#include "device/device.h"
#include "model/parameters.h"

namespace lmtrain {

// A MemoryPlan counts the bytes of one process. With several processes `snapshot` is for one that
// writes its own share of a checkpoint; if the optimizer is not divided, only rank 0 has it.
struct MemoryPlan {
  // fp32 masters. With divided weights: the masters of one process; in fp32 also the two modules
  // that are gathered at a time.
  int64_t weights = 0;
  int64_t working_weights = 0;  // a second copy in bf16 or fp16; 0 in fp32
  int64_t gradient = 0;         // fp32, summed over the step; all buffers with an exact sum
  int64_t optimizer = 0;        // state of the update rule
  int64_t activations = 0;      // kept for the backward of the largest micro-batch
  int64_t logits = 0;           // of the positions whose loss is computed at once
  // SwiGLU's value of the largest micro-batch, if a GPU has the room to keep it for the backward
  // (fitting_swiglu_value of training/micro_batch_limits.h). plan_memory leaves it 0.
  int64_t swiglu_value = 0;
  int64_t micro_gradient = 0;  // of the largest micro-batch, before it is added to `gradient`
  // Other memory of the backward of one layer, and memory of the update. On a CPU both add to the
  // peak, since its allocator keeps freed blocks (device/caching_allocator.h); 0 on a GPU.
  int64_t temporaries = 0;
  int64_t update = 0;
  // Other host memory of the process (program_bytes()). plan_memory leaves it 0.
  int64_t program = 0;
  // Host memory for copies while a checkpoint is written. On a CPU without checkpoint.async, only
  // the rounded weights.
  int64_t snapshot = 0;
  // With divided weights: host memory of rank 0 for all masters, while it reads a checkpoint or the
  // weights of init_from and hands them out.
  int64_t reading = 0;

  int64_t device_total() const {
    return weights + working_weights + gradient + optimizer + activations + logits + swiglu_value +
           micro_gradient + temporaries + update;
  }
  // Returns the bytes that grow with the micro-batch, and to which kAllowance applies.
  int64_t of_positions() const { return activations + logits + temporaries; }
};

// The factor on MemoryPlan::of_positions() for gaps of the heap and workspaces of libraries, when
// rows are chosen to fit into memory.
inline constexpr double kAllowance = 1.5;
// The part of a GPU's memory that a plan may fill; the rest is for libraries and gaps.
inline constexpr double kUsableOnGpu = 0.9;

// Returns the bytes of a micro-batch's gradients, which exist beside their sum over micro-batches.
// On a GPU the gradients of the layers' matrices do not exist, except in fp8
// (ops/weight_gradient.h).
int64_t micro_gradient_bytes(const Parameters& parameters, const Precision& precision,
                             const at::Device& device);

// Returns the bytes to keep SwiGLU's value of `micro_positions` for the backward (keep_swiglu_value
// of ops/operators.h); 0 in fp8, where the plan's activations contain it. `config` is resolved.
int64_t swiglu_value_bytes(const Config& config, const Precision& precision,
                           int64_t micro_positions);

// Returns MemoryPlan::program. Call it before any memory of the plan is allocated: it counts what
// is resident now (libraries, tokenizer, pages of the text), and 32 MiB for the code and the
// threads of the first step.
int64_t program_bytes();

// Returns the plan of one of `num_processes`. `config` is resolved. `micro_positions` is rows x
// length of the largest micro-batch. `device` is the config's, unless a plan is for another
// machine. With parallel.shard the largest share of all processes counts:
//   "optimizer"   for `optimizer` and `snapshot`
//   "parameters"  for these two, `weights`, `working_weights` and `gradient`; micro_gradient and
//                 activations are of Llama::loss_and_gradient_by_modules(), and on a GPU weights
//                 and gradient of module_slots()
MemoryPlan plan_memory(const Config& config, const Precision& precision, int64_t micro_positions,
                       int num_processes = 1, std::optional<at::Device> device = std::nullopt);

}  // namespace lmtrain
