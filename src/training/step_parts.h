// Computes the forward and backward of a step in parts (parallel.sum "exact"): the rows of the
// batch are dealt out to parts, whose number is a power of two, and the gradients of the parts are
// summed as a binary tree. The tree does not depend on how many processes share the parts, so
// neither do the bits of its sum. A process computes a subtree: its parts are contiguous, and their
// number is a power of two.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "batching/batch.h"
#include "model/llama.h"
#include "ops/accumulate.h"
#include "training/step_graphs.h"

namespace lmtrain {

class StepParts {
 public:
  // Every batch has `parts` parts. This computes the parts of `share`. Requires parts, and parts /
  // share.count, to be powers of two.
  StepParts(int64_t parts, const BatchShare& share);

  // Overwrites `grad` with the sum of the gradients of the share's parts, and returns the losses of
  // these parts, in order. Over all processes the losses add up to the loss of the batch. `batch`
  // holds the rows of the share. The other arguments and the errors are as for accumulate_batch
  // (training/step.h); `finished` is told of elements of the whole sum, in the last part. A
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
