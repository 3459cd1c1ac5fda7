// The forward and backward of a step in parts (parallel.sum "exact"): the rows of the batch are
// dealt out to a power of two of parts, and the gradients of the parts are summed as a binary tree.
// The tree does not depend on how many processes the parts are dealt out to, so neither do the bits
// of its sum. A process computes a subtree of it: its parts are contiguous, and a power of two.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "batching/batch.h"
#include "model/llama.h"
#include "train/step_graphs.h"

namespace lmtrain {

class StepParts {
 public:
  // `share` of the `parts` parts of every batch. Requires parts, and parts / share.count, to be
  // powers of two.
  StepParts(int64_t parts, const BatchShare& share);

  // As accumulate_batch of train/step.h: puts the sum of the gradients of the share's parts into
  // `grad`, and returns the loss of each part, in order. `batch` holds the rows of the share.
  // Keeps log2 of the share's parts buffers of the size of `grad`.
  std::vector<double> accumulate(Llama& model, const Batch& batch, int64_t micro_tokens,
                                 const at::Tensor& grad, double loss_scale, StepGraphs* graphs);

 private:
  int64_t parts_;
  int64_t first_, end_;           // of the share
  std::vector<at::Tensor> sums_;  // [i]: the finished sum of 2^i parts that waits for its neighbour
};

}  // namespace lmtrain
