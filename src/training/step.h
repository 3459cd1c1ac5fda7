// Computes the forward and backward passes of one optimizer step, whole or in parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "batching/batch.h"
#include "model/llama.h"
#include "ops/accumulate.h"
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

// Computes the forward and backward of a step in parts (parallel.sum "exact"). The rows of the
// batch are dealt out to parts, whose number is a power of two, and the gradients of the parts are
// summed as a binary tree. The tree does not depend on how many processes share the parts, so
// neither do the bits of its sum. A process computes a subtree: its parts are contiguous, and their
// number is a power of two.
class StepParts {
 public:
  // Every batch has `parts` parts. This computes the parts of `share`. Requires parts, and parts /
  // share.count, to be powers of two.
  StepParts(int64_t parts, const BatchShare& share);

  // Overwrites `grad` with the sum of the gradients of the share's parts, and returns the losses of
  // these parts, in order. Over all processes the losses add up to the loss of the batch. `batch`
  // holds the rows of the share. The other arguments and the errors are as for
  // accumulate_batch(); `finished` is told of elements of the whole sum, in the last part. A
  // PartTree keeps more buffers of the size of `grad`.
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
