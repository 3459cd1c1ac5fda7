// Computes the memory that a run will hold from shapes alone: the bytes that are allocated once,
// and those that one micro-batch keeps from its forward for its backward. It is an estimate, since
// allocators round up and matrix libraries have workspaces of their own.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "device/device.h"
#include "model/parameters.h"

namespace lmtrain {

// A MemoryPlan counts bytes of one process. With several, `snapshot` is of one that writes its own
// share of a checkpoint; where the optimizer is not divided, of the first alone, which writes all.
struct MemoryPlan {
  // fp32 masters. Where weights are divided: the masters of one process, in fp32 also the two
  // pieces gathered at a time.
  int64_t weights = 0;
  int64_t working_weights = 0;  // a second copy in bf16 or fp16; 0 in fp32
  int64_t gradient = 0;         // fp32, summed over the step; several where parallel.sum is exact
  int64_t optimizer = 0;        // state of the update rule
  int64_t activations = 0;      // of the layers, kept for the backward of the largest micro-batch
  int64_t logits = 0;           // of the chunk of that micro-batch whose loss is computed at once
  // SwiGLU's value of that micro-batch, where a GPU has the room to keep it for the backward
  // (fitting_swiglu_value of training/micro_batch_limits.h). plan_memory leaves it 0.
  int64_t swiglu_value = 0;
  int64_t micro_gradient = 0;  // of that micro-batch, before it is added to `gradient`
  // What the backward of one layer needs of that micro-batch, and what the update needs. A CPU
  // keeps blocks of each size (device/caching_allocator.h), so that both add to the peak; 0 on a
  // GPU.
  int64_t temporaries = 0;
  int64_t update = 0;
  // Host memory of the process beside all of these (program_bytes). plan_memory leaves it 0.
  int64_t program = 0;
  // Host memory while a checkpoint is written. On a CPU without checkpoint.async that is only what
  // is rounded for it.
  int64_t snapshot = 0;

  int64_t device_total() const {
    return weights + working_weights + gradient + optimizer + activations + logits + swiglu_value +
           micro_gradient + temporaries + update;
  }
  // Returns the bytes that grow with the micro-batch, and that an allowance is made for.
  int64_t of_positions() const { return activations + logits + temporaries; }
};

// The factor by which MemoryPlan::of_positions() may be exceeded, before a run is cut to fit: gaps
// of the heap, and workspaces of libraries.
inline constexpr double kAllowance = 1.5;
// The part of a GPU's memory that plans count with; the rest is for libraries and gaps.
inline constexpr double kUsableOnGpu = 0.9;

// Returns the bytes of the gradients of a micro-batch that exist beside their sum over
// micro-batches. On a GPU the gradients of the layers' matrices exist only where their products are
// in fp8 (ops/weight_gradient.h).
int64_t micro_gradient_bytes(const Parameters& parameters, const Precision& precision,
                             const at::Device& device);

// Returns the bytes that `micro_positions` keep beside the plan's activations where SwiGLU's value
// is kept for the backward (keep_swiglu_value of ops/operators.h); 0 in fp8, where it is among
// these. `config` is resolved.
int64_t swiglu_value_bytes(const Config& config, const Precision& precision,
                           int64_t micro_positions);

// Returns the bytes of host memory that the program takes beside a plan, of a process that has
// allocated nothing of it yet: what is resident now (libraries, tokenizer, pages of the text), and
// 32 MiB for the code and the threads that the first step wakes.
int64_t program_bytes();

// Returns the plan of one of `num_processes`. `config` is resolved. `micro_positions` is rows x
// length of the largest micro-batch. With parallel.shard "optimizer", `optimizer` and `snapshot`
// are the most that one process has. With "parameters" so are weights, working_weights and
// gradient; micro_gradient and activations then count a pass by pieces.
MemoryPlan plan_memory(const Config& config, const Precision& precision, int64_t micro_positions,
                       int num_processes = 1);

}  // namespace lmtrain
