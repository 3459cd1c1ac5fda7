// The memory that a run will hold, computed from shapes alone: bytes of what is allocated once, and
// of what one micro-batch keeps from its forward for its backward. An estimate: allocators round up
// and matrix libraries have workspaces of their own.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "device/device.h"
#include "model/parameters.h"

namespace lmtrain {

struct MemoryPlan {
  int64_t weights = 0;          // fp32 masters
  int64_t working_weights = 0;  // a second copy in bf16; 0 in fp32
  int64_t gradient = 0;         // fp32, summed over the step, with parallel.sum exact in parts
  int64_t optimizer = 0;        // state of the update rule
  int64_t activations = 0;      // of the layers, kept for the backward of the largest micro-batch
  int64_t logits = 0;           // of that micro-batch; their gradient overwrites them
  int64_t micro_gradient = 0;   // of that micro-batch, before it is added to `gradient`
  int64_t snapshot = 0;         // host memory, while a checkpoint is written beside training

  int64_t device_total() const {
    return weights + working_weights + gradient + optimizer + activations + logits + micro_gradient;
  }
};

// `config` is resolved; `micro_positions` are rows x length of the largest micro-batch.
MemoryPlan plan_memory(const Config& config, const Precision& precision, int64_t micro_positions);

}  // namespace lmtrain
