// Runs a Llama: its TorchScript source is compiled for one configuration and bound to working
// weights.
//
// `eager` runs the compiled graph as written; `script` first inlines it, unrolls the layers and
// folds constants. Either is fixed before the first call and never specialised afterwards, so the
// bits of a step do not depend on how many came before. Not thread-safe.
//
// With `activation_checkpointing` of its config a layer is computed again in the backward instead
// of being kept (model/activation_checkpointing.h), to the same bits.
//
// A row of more than max_length positions is an Error(kInternal).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/key_value_cache.h"
#include "model/parameters.h"
#include "model/weight_pieces.h"

namespace lmtrain {

// A MicroBatch holds rows that go through the model at once, as tensors: all that differs between
// two micro-batches of one shape, so that a captured graph of the shape serves them all.
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

// Holds the loss of a micro-batch, and the loss of each of its targets.
struct TargetLosses {
  at::Tensor sum;   // scalar in fp32: scale x sum of nats
  at::Tensor each;  // fp32 [B, T]: nats, 0 where nothing is predicted
};

// Is told that the elements [first, first + size) of a flat gradient have their final value.
using ElementsFinished = std::function<void(int64_t first, int64_t size)>;

class Llama {
 public:
  // `compile` is kEager or kScript; kGraph means kScript here. `z_loss` is the weight of the z-loss
  // in the gradient; no loss that is returned contains it. With `fp8` the products with the layers'
  // matrices are lm.fp8_linear. The parameters must outlive the model; their buffers must not be
  // replaced.
  Llama(const ModelConfig& model, Parameters& parameters, int64_t max_length, CompileMode compile,
        double z_loss = 0, bool fp8 = false, uint64_t dropout_seed = 0);
  ~Llama();

  // Takes ids_BT, int64, T at most max_length, and returns logits_BTV in the working dtype. All
  // tensors are on the model's device, here and below. No gradient is recorded.
  at::Tensor logits(const at::Tensor& ids);
  // Returns an empty cache for `rows` rows of this model.
  KeyValueCache new_cache(int64_t rows) const;
  // Begins row `row` of the cache anew with ids_T, int64, T from 1 to max_length, and returns
  // logits_V after the last of them: the bits of logits() up to the head's product.
  at::Tensor begin_row(const at::Tensor& ids, KeyValueCache& cache, int64_t row);
  // Appends ids_B[b], int64, to row b, for the first B rows of the cache, and returns logits_BV
  // after them. The cost is in proportion to the longest of the rows. Each row must have been
  // begun.
  at::Tensor extend_rows(const at::Tensor& ids, KeyValueCache& cache);
  // Returns the losses of a micro-batch. No gradient is recorded.
  TargetLosses target_losses(const MicroBatch& micro);
  // Returns scale x sum of nats, a scalar in fp32 with the bits of TargetLosses::sum, and adds its
  // gradient to `grad`, the flat fp32 buffer of the layout; if `first`, overwrites `grad` instead.
  // The gaps of `grad` are left as they are. It does not wait for the device, and does the same
  // work for all micro-batches of one shape. `finished`, where it is given, is called for every
  // element but the gaps once, tensor by tensor, while the backward goes on: from its thread, in
  // the order in which it finishes them. On a GPU, where the work is only queued, it is called at
  // the end. The bits are the same with it. What it throws passes through.
  at::Tensor loss_and_gradient(const MicroBatch& micro, const at::Tensor& grad, bool first,
                               const ElementsFinished& finished = {});

  // Makes the model compute layer by layer, with the weights that `pieces` brings, which must
  // outlive it. Then only target_losses() and the functions below may be called. Requires
  // sum_by_products(false).
  void read_by_pieces(WeightPieces& pieces) { pieces_ = &pieces; }
  // Does the forward and backward of all micro-batches of a step in one pass over the layers, which
  // computes each layer again in the backward. So each layer is brought twice a step. Adds the
  // gradients of the micro-batches of each part, multiplies them by `unscale`, and adds the parts,
  // a power of two, as a binary tree: with the bits of loss_and_gradient() and StepParts
  // (training/step.h). A part may have no micro-batches. `grad` is the flat fp32 buffer.
  // `finished` is called for each piece whose gradient is final, and for the norms at the end.
  // Returns the scaled losses by part. When this throws, all pieces have come and gone and
  // `finished` was called for all, unless a piece itself fails.
  std::vector<std::vector<at::Tensor>> loss_and_gradient_by_pieces(
      const std::vector<std::vector<MicroBatch>>& parts, const at::Tensor& grad, double unscale,
      const ElementsFinished& finished);
  // Takes part in the bringing of a target_losses() of others; does nothing where the weights do
  // not come in pieces.
  void take_part_in_evaluation();

  // Returns logits in two parts, for those who need them at a few positions: takes ids_BT like
  // logits() and returns states_BTD in the working dtype, which head() turns from [N, D] into
  // logits_NV. No gradient is recorded.
  at::Tensor states(const at::Tensor& ids);
  at::Tensor head(const at::Tensor& states);

  // Sets whether the gradients of the layers' matrices are added to `grad` by the products that
  // compute them (ops/weight_gradient.h), which gives other bits. It is on where the weights are on
  // a GPU, and off on a CPU. The gradients of fp8's products are not added so.
  void sum_by_products(bool on) { sums_by_products_ = on; }

  int64_t max_length() const { return max_length_; }
  // Probability that an element falls out where MicroBatch::dropout_keys are given.
  double dropout() const { return dropout_; }
  // What the keys of all rows are made from.
  uint64_t dropout_seed() const { return dropout_seed_; }
  const Parameters& parameters() const { return parameters_; }
  at::Device device() const { return parameters_.master().device(); }

 private:
  struct Compiled;
  class LeafSums;
  // Returns cos, sin and segments as the source takes them.
  std::vector<c10::IValue> attention_arguments(const MicroBatch& micro);
  // Returns the keys of dropout as the source takes them.
  static c10::IValue dropout_keys(const MicroBatch& micro);
  c10::IValue run(const char* function, std::vector<c10::IValue> arguments) const;
  at::Tensor call(const char* function, std::vector<c10::IValue> arguments) const;
  at::Tensor whole_loss(const MicroBatch& micro);
  // Returns the bits of whole_loss(), and keeps only the input of each layer for the backward.
  at::Tensor checkpointed_loss(const MicroBatch& micro);
  // Sums the gradients of the leaves into `grad` as the backward of `loss` yields them.
  void sum_as_they_come(const at::Tensor& loss, const at::Tensor& grad, bool first,
                        const ElementsFinished& finished);
  // Goes through the pieces from the embedding to the last layer: awaits each, starts the next,
  // calls compute(piece), and releases it. Starts the head at the end, and does not await it.
  void pass_forward(const std::function<void(size_t piece)>& compute);
  // Returns what target_losses() does, where weights come in pieces. Without a micro-batch (null)
  // it takes part in bringing them, for other processes, and returns nothing.
  TargetLosses target_losses_by_pieces(const MicroBatch* micro);

  Parameters& parameters_;
  int64_t max_length_;
  KeyValueSizes cache_sizes_;
  std::unique_ptr<Compiled> compiled_;
  std::vector<at::Tensor> leaves_;  // working tensors with requires_grad, in the layout's order
  std::vector<int64_t> offsets_;    // where each leaf is in the flat buffer
  // Takes leaf i and its whole gradient; empty unless sum_as_they_come() is at work.
  std::function<void(size_t i, const at::Tensor& gradient)> take_gradient_;
  bool has_hooks_ = false;  // the leaves call take_gradient_
  c10::IValue weights_;
  c10::IValue layers_;
  // Where leaves are among leaves_. A tied head is the leaf of the embedding.
  size_t embed_leaf_ = 0, head_leaf_ = 0, norm_leaf_ = 0;
  std::vector<std::vector<size_t>> layer_leaves_;
  WeightPieces* pieces_ = nullptr;
  size_t head_piece_ = 0;
  double dropout_;
  uint64_t dropout_seed_;
  bool activation_checkpointing_;
  bool sums_by_products_;
  at::Tensor cos_, sin_;
};

}  // namespace lmtrain
