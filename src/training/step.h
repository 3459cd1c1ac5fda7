// Computes the forward and backward passes of one optimizer step.
#pragma once

#include "batching/batch.h"
#include "model/llama.h"
#include "training/step_graphs.h"

namespace lmtrain {

// Returns the mean loss of the batch in nats a target, and overwrites `grad` (flat, fp32) with its
// gradient. Where `batch` holds a share of a batch, both are sums over the rows of the share,
// divided by the targets of the whole batch. micro_tokens / batch.length rows, at least one, go
// through the model at once. Every micro-batch is weighted by the targets of the whole batch, so
// the cut changes nothing but rounding. Inside the model loss and gradient are multiplied by
// `loss_scale`, a power of two; both results are divided by it again. `graphs`, made for this model
// and `grad`, compute the same bits; null: none are used. Where cuDNN refuses a shape, its
// attention is turned off for the rest of the process, the log says so, and the step is computed
// again. Where the graphs are given up for want of memory, the step is computed again without them.
// Other errors pass through.
//
// `finished`, where it is given, is told in the backward of the last micro-batch which elements of
// `grad` have their final value (Llama::loss_and_gradient), the gaps excepted; without rows all
// have it at once. It must not be given with `graphs`, and nothing is computed again with it.
double accumulate_batch(Llama& model, const Batch& batch, int64_t micro_tokens,
                        const at::Tensor& grad, double loss_scale = 1, StepGraphs* graphs = nullptr,
                        const ElementsFinished& finished = {});
// Computes the part of that loss and gradient that some rows have, zero for an empty range. `rows`
// counts from the first row that `batch` holds.
double accumulate_rows(Llama& model, const Batch& batch, const RowRange& rows, int64_t micro_tokens,
                       const at::Tensor& grad, double loss_scale = 1, StepGraphs* graphs = nullptr,
                       const ElementsFinished& finished = {});

// Computes the loss and gradient of several ranges of rows in one pass over the pieces of the
// weights (Llama::loss_and_gradient_by_pieces). Returns the loss of each range, as
// accumulate_rows() computes it. `grad` gets the sum over the ranges. `micro_rows` rows go through
// a layer at once. `finished` is called for every piece and for the norms, also when this throws.
std::vector<double> accumulate_by_pieces(Llama& model, const Batch& batch,
                                         const std::vector<RowRange>& parts, int64_t micro_rows,
                                         const at::Tensor& grad, double loss_scale,
                                         const ElementsFinished& finished);

}  // namespace lmtrain
