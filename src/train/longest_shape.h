// The largest forward and backward of a run, tried before its first step: where memory is short it
// fails now, and not in hour nine, when a length schedule comes to its longest rows.
#pragma once

#include "config/config.h"
#include "model/llama.h"

namespace lmtrain {

// One micro-batch of rows of `length` (the longest of the run) without a target. `grad` is
// overwritten, which the first micro-batch of a step does anyway; nothing else changes, so no bit
// of the run depends on the trial. Error(kMemory) that names the shape and the key to change.
void try_longest_shape(Llama& model, int64_t length, const SequenceConfig& sequence,
                       const BatchConfig& batch, const at::Tensor& grad);

}  // namespace lmtrain
