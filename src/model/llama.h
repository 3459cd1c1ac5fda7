// Runs a Llama: its TorchScript source is compiled for one configuration and bound to working
// weights.
//
// `eager` runs the compiled graph as written; `script` first inlines it, unrolls the layers and
// folds constants. Neither changes the graph after that, so the bits of a step do not depend on
// earlier steps. Not thread-safe.
//
// With `activation_checkpointing` in its config the backward computes each layer again
// (model/activation_checkpointing.h), to the same bits.
//
// All functions throw Error(kInternal) for a row of more than max_length positions.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "config/config.h"
#include "model/key_value_cache.h"
#include "model/module_weights.h"
#include "model/parameters.h"

namespace lmtrain {

// A MicroBatch holds the rows that go through the model at once, as tensors. A captured graph reads
// no other input, so it serves all micro-batches of its shape.
struct MicroBatch {
  at::Tensor ids;      // int64 [B, T]
  at::Tensor targets;  // int64 [B, T], negative where nothing is predicted
  at::Tensor scale;    // fp64 []: the factor on the sum of nats and on its gradient
  // `bounds` and `positions` are undefined if every row is one segment. `bounds` is int32 [S + 1]:
  // the flattened positions where the segments begin, then B x T in all further entries. S is the
  // number of segments rounded up to a power of two (at most to 65535), since FlashAttention's
  // order of sums and the shape of a captured graph depend on S.
  at::Tensor bounds;
  at::Tensor positions;  // int64 [B x T]: the position of each token in its segment
  // int64 [B]: random bits of each row (ops/operators.h, dropout); undefined without dropout.
  at::Tensor dropout_keys;

  // Returns a copy on `device`. Does not wait for the copying.
  MicroBatch to(const at::Device& device) const;
};

// Returns a micro-batch on the host, to be sent to `device`: for a GPU its new tensors are in
// page-locked memory. Keeps `ids` and `targets` as they are. `segments` is as in Batch
// (batching/batch.h); empty: every row is one segment. `dropout_keys` has a number for each row;
// empty: no dropout. Throws Error(kInternal) for segments out of order, or over the end of a row.
MicroBatch micro_batch(const at::Tensor& ids, const at::Tensor& targets, double scale,
                       const std::vector<int32_t>& segments = {},
                       const at::Device& device = at::kCPU,
                       const std::vector<int64_t>& dropout_keys = {});

// Is called when the elements [first, first + size) of a flat gradient have their final value.
using ElementsFinished = std::function<void(int64_t first, int64_t size)>;

class Llama {
 public:
  // `compile` is kEager or kScript; kGraph means kScript here. `z_loss` is the weight of the z-loss
  // in the gradient; returned losses do not contain it. With `fp8` the products with the layers'
  // matrices are lm.fp8_linear and lm.fp8_mlp. The parameters must outlive the model; their buffers
  // must not be replaced.
  Llama(const ModelConfig& model, Parameters& parameters, int64_t max_length, CompileMode compile,
        double z_loss = 0, bool fp8 = false, uint64_t dropout_seed = 0);
  ~Llama();

  // Takes ids_BT, int64, T at most max_length, and returns logits_BTV in the working dtype. All
  // tensors are on the model's device, here and below. Records no gradient.
  at::Tensor logits(const at::Tensor& ids);
  // Returns an empty cache for `rows` rows of this model.
  KeyValueCache new_cache(int64_t rows) const;
  // Begins row `row` of the cache anew with ids_T, int64, T from 1 to max_length, and returns
  // logits_V after the last id. Up to the head's product, the bits equal logits().
  at::Tensor begin_row(const at::Tensor& ids, KeyValueCache& cache, int64_t row);
  // Appends ids_B[b], int64, to row b, for the first B rows of the cache, which must have begun,
  // and returns logits_BV after them. The cost grows with the longest row.
  at::Tensor extend_rows(const at::Tensor& ids, KeyValueCache& cache);
  // Returns the nats of each target of a micro-batch, fp32 [B, T], 0 where nothing is predicted.
  // Does not read micro.scale. Records no gradient.
  at::Tensor target_losses(const MicroBatch& micro);
  // Returns scale x sum of nats, a scalar in fp32, and adds its gradient to `grad`, the flat fp32
  // buffer of the layout; if `first`, overwrites `grad` instead. Leaves the gaps of `grad` as they
  // are. Does not wait for the device, and does the same work for all micro-batches of one shape.
  // Calls `finished`, if given, once for every element but the gaps, tensor by tensor, in the order
  // in which the backward finishes them, and in its thread; on a GPU, where the work is only
  // queued, at the end. `finished` changes no bit; its exceptions pass through.
  at::Tensor loss_and_gradient(const MicroBatch& micro, const at::Tensor& grad, bool first,
                               const ElementsFinished& finished = {});

  // Makes the model compute module by module, with the weights that `modules` gathers, which must
  // outlive the model. Then only target_losses(), loss_and_gradient_by_modules() and
  // take_part_in_evaluation() may be called.
  void read_by_modules(ModuleWeights& modules) { modules_ = &modules; }
  // Makes the forward and backward of all micro-batches of a step in one pass over the layers; the
  // backward computes each layer again. So each layer is gathered twice a step. Sums the gradients
  // of a part's micro-batches, multiplies the sum by `unscale`, and adds the sums of all parts as a
  // binary tree. The number of parts is a power of two. The bits equal loss_and_gradient() with
  // StepParts (training/step.h). A part may have no micro-batches. Overwrites `grad`, the flat fp32
  // buffer. Calls `finished` for each module whose gradient is final, and for the norms at the end.
  // Returns the scaled losses by part. If it throws, it has still started, released and finished
  // all modules, unless a gather itself fails. Throws Error(kInternal) without read_by_modules().
  std::vector<std::vector<at::Tensor>> loss_and_gradient_by_modules(
      const std::vector<std::vector<MicroBatch>>& parts, const at::Tensor& grad, double unscale,
      const ElementsFinished& finished);
  // Takes part in the gathers of a target_losses() of other processes. Does nothing without
  // read_by_modules().
  void take_part_in_evaluation();

  // Computes logits in two parts, for callers that need few positions: states() takes ids_BT like
  // logits() and returns states_BTD in the working dtype; head() turns states_ND into logits_NV.
  // Records no gradient.
  at::Tensor states(const at::Tensor& ids);
  at::Tensor head(const at::Tensor& states);

  // Sets whether the products that compute the gradients of the layers' matrices also add them to
  // `grad` (ops/weight_gradient.h), which gives other bits; not in fp8. By default it is on for
  // weights on a GPU, and off on a CPU.
  void sum_by_products(bool on) { sums_by_products_ = on; }

  int64_t max_length() const { return max_length_; }
  // The probability that dropout zeroes an element, if MicroBatch::dropout_keys are given.
  double dropout() const { return dropout_; }
  // The seed from which callers make MicroBatch::dropout_keys.
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
  at::Tensor call(const char* function, std::vector<c10::IValue> arguments) const;
  at::Tensor whole_loss(const MicroBatch& micro);
  // Returns the bits of whole_loss(), and keeps only the input of each layer for the backward.
  at::Tensor checkpointed_loss(const MicroBatch& micro);
  // Sums the gradients of the leaves into `grad` as the backward of `loss` yields them.
  void sum_as_they_come(const at::Tensor& loss, const at::Tensor& grad, bool first,
                        const ElementsFinished& finished);
  // Goes through the modules from the embedding to the last layer: awaits each, starts the next,
  // calls compute(module), and releases it. Starts the head at the end, and does not await it.
  void pass_forward(const std::function<void(size_t module)>& compute);
  // Returns what target_losses() does, after read_by_modules(). Without a micro-batch (null) it
  // only takes part in the gathers of other processes, and returns nothing.
  at::Tensor target_losses_by_modules(const MicroBatch* micro);

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
  ModuleWeights* modules_ = nullptr;
  size_t head_module_ = 0;
  double dropout_;
  uint64_t dropout_seed_;
  bool activation_checkpointing_;
  bool sums_by_products_;
  at::Tensor cos_, sin_;
};

}  // namespace lmtrain
