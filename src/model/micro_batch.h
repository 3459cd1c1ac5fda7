// A MicroBatch holds rows that go through the model at once, as tensors: all that differs between
// two micro-batches of one shape, so that a captured graph of the shape serves them all.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lmtrain {

struct MicroBatch {
  at::Tensor ids;      // int64 [B, T]
  at::Tensor targets;  // int64 [B, T], negative where nothing is predicted
  at::Tensor scale;    // fp64 []: what the sum of nats, and so its gradient, is multiplied by
  // `bounds` and `positions` are undefined where every row is one segment. `bounds` is int32
  // [S + 1]: the flattened positions where the segments begin, then B x T in all further entries. S
  // is the number of segments rounded up to a power of two, since FlashAttention's order of sums
  // depends on S, and so does the shape of a captured graph.
  at::Tensor bounds;
  at::Tensor positions;  // int64 [B x T]: the position of each token in its segment
  // int64 [B], undefined without dropout: random bits of each row (ops/operators.h, dropout).
  at::Tensor dropout_keys;

  // Returns a copy on `device`, and does not wait for it.
  MicroBatch to(const at::Device& device) const;
};

// Makes a micro-batch on the host. `ids` and `targets` become part of it as they are; the other
// tensors are made for sending to `device`, in page-locked memory where that is a GPU. `segments`
// is as in Batch (batching/batch.h); empty: every row is one segment. Throws Error(kInternal) for
// segments that are out of order or go over the end of a row. `dropout_keys` has a number for each
// row; empty: there is no dropout.
MicroBatch micro_batch(const at::Tensor& ids, const at::Tensor& targets, double scale,
                       const std::vector<int32_t>& segments = {},
                       const at::Device& device = at::kCPU,
                       const std::vector<int64_t>& dropout_keys = {});

}  // namespace lmtrain
