// Computes the forward and backward passes of one optimizer step, whole or in parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <vector>

#include "batching/batch.h"
#include "model/llama.h"
#include "ops/accumulate.h"
#include "training/step_graphs.h"

namespace lmtrain {

// Returns the mean loss of the batch in nats a target, and overwrites `grad` (flat, fp32) with its
// gradient. If `batch` holds a share of a batch, both are sums over the rows of the share, divided
// by the targets of the whole batch. micro_tokens / batch.length rows, at least one, go through the
// model at once; this cut changes nothing but rounding. Inside the model loss and gradient are
// multiplied by `loss_scale`, a power of two; the results are not. `graphs`, made for this model
// and `grad`, compute the same bits; null: no graphs. If cuDNN refuses a shape, it warns, turns
// cuDNN's attention off for the rest of the process, and computes the step again. If `graphs` are
// given up for lack of memory, it computes the step again too. Other errors pass through.
//
// `finished`, if given, is called in the backward of the last micro-batch for the elements of
// `grad` that have their final value (Llama::loss_and_gradient), without the gaps; for a batch
// without rows, once for all elements. With `finished` it never computes a step again: all errors
// pass through. With both `finished` and `graphs` it throws Error(kInternal).
double accumulate_batch(Llama& model, const Batch& batch, int64_t micro_tokens,
                        const at::Tensor& grad, double loss_scale = 1, StepGraphs* graphs = nullptr,
                        const ElementsFinished& finished = {});
// Does the same for the range `rows` of the batch alone: its part of that loss and gradient, zero
// for an empty range. `rows` counts from the first row that `batch` holds.
double accumulate_rows(Llama& model, const Batch& batch, const RowRange& rows, int64_t micro_tokens,
                       const at::Tensor& grad, double loss_scale = 1, StepGraphs* graphs = nullptr,
                       const ElementsFinished& finished = {});

// Turns cuDNN's attention off for the rest of the process, with a warning, if `error` says that
// cuDNN refused to compute it for rows of this length. Returns whether it did, so that the step can
// be computed again.
bool give_up_cudnn_attention(const std::exception& error, int64_t length);

// Computes loss and gradient of several ranges of rows in one pass over the modules of the model
// (Llama::loss_and_gradient_by_modules). Returns the loss of each range, as accumulate_rows() does,
// and overwrites `grad` with the sum of the gradients. `micro_rows` rows go through a layer at
// once. Calls `finished` for every module and for the norms, also when it throws.
std::vector<double> accumulate_by_modules(Llama& model, const Batch& batch,
                                          const std::vector<RowRange>& parts, int64_t micro_rows,
                                          const at::Tensor& grad, double loss_scale,
                                          const ElementsFinished& finished);

// Computes the forward and backward of a step in parts (parallel.sum "exact"). The rows of the
// batch are divided into parts, whose number is a power of two. The gradients of the parts are
// added as a binary tree, so the bits of the sum do not depend on the number of processes. Each
// process computes a subtree: neighbouring parts, whose number is a power of two too.
class StepParts {
 public:
  // Divides every batch into `parts`, and computes the parts of `share`. Throws Error(kInternal)
  // unless `parts` and parts / share.count are powers of two.
  StepParts(int64_t parts, const BatchShare& share);

  // Overwrites `grad` with the sum of the gradients of the share's parts, and returns the losses of
  // these parts, in order. Over all processes the losses add up to the loss of the batch. `batch`
  // holds the rows of the share. Other arguments and errors are as for accumulate_batch();
  // `finished` is called in the last part, for elements of the whole sum. Keeps up to log2(parts of
  // the share) more buffers of the size of `grad`.
  std::vector<double> accumulate(Llama& model, const Batch& batch, int64_t micro_tokens,
                                 const at::Tensor& grad, double loss_scale, StepGraphs* graphs,
                                 const ElementsFinished& finished = {});
  // Returns the rows of each part of the share, counted from the first that `batch` holds.
  std::vector<RowRange> rows_of_share(const Batch& batch) const;
  // Returns the number of parts of the share, and so of the losses of accumulate().
  size_t parts_of_share() const { return static_cast<size_t>(end_ - first_); }

 private:
  int64_t parts_;
  int64_t first_, end_;  // the share's parts
  PartTree tree_;        // over them, counted from first_
};

}  // namespace lmtrain
