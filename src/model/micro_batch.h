// Rows that go through the model at once, as tensors: all that differs between two micro-batches of
// one shape, so that a captured graph of the shape serves them all.
//
// Made on the host, in page-locked memory where they are to go to a GPU, and sent without waiting.
// Error(kInternal) for segments that are out of order or go over the end of a row.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lmtrain {

struct MicroBatch {
  at::Tensor ids;      // int64 [B, T]
  at::Tensor targets;  // int64 [B, T], negative where nothing is predicted
  at::Tensor scale;    // fp64 []: what the sum of nats, and so its gradient, is multiplied by
  // Both undefined where every row is one segment.
  // int32 [S + 1]: the flattened positions where the segments begin, then B x T. S is their number
  // rounded up to a power of two, the last ones are empty: FlashAttention's order of sums depends
  // on S, and so does the shape of a captured graph.
  at::Tensor bounds;
  at::Tensor positions;  // int64 [B x T]: the position of each token in its segment

  MicroBatch to(const at::Device& device) const;
};

// `segments` are those of batching/batch.h, none: every row is one. `device`: where it will be
// sent.
MicroBatch micro_batch(const at::Tensor& ids, const at::Tensor& targets, double scale,
                       const std::vector<int32_t>& segments = {},
                       const at::Device& device = at::kCPU);

}  // namespace lmtrain
