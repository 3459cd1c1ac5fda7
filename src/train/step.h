// The forward and backward of one optimizer step.
#pragma once

#include "batching/batch.h"
#include "model/llama.h"
#include "train/step_graphs.h"

namespace lmtrain {

// Loss in nats a target over the whole batch, and its gradient in `grad` (flat, fp32), whatever
// `micro_tokens`: every micro-batch is weighted by the targets of the whole batch, so the cut
// changes nothing but rounding. On their way through the model loss and gradient are multiplied by
// `loss_scale`, a power of two, and then divided by it again. `graphs`, of this model and gradient,
// do the same work with the same bits; null: none. Where cuDNN refuses a shape, its attention is
// turned off for the rest of the process, the log says so, and the work is done again without; so
// it is where the graphs end for want of memory.
double accumulate_batch(Llama& model, const Batch& batch, int64_t micro_tokens,
                        const at::Tensor& grad, double loss_scale = 1,
                        StepGraphs* graphs = nullptr);
// The same for some rows alone, [first, end) of those that `batch` holds: their part of loss and
// gradient, zero where there are none.
double accumulate_rows(Llama& model, const Batch& batch, const RowRange& rows, int64_t micro_tokens,
                       const at::Tensor& grad, double loss_scale = 1, StepGraphs* graphs = nullptr);

}  // namespace lmtrain
