// A Llama that runs: the TorchScript source compiled for one configuration, bound to working
// weights.
//
// `eager` runs the compiled graph as written; `script` first inlines it, unrolls the layers and
// folds constants. Either is fixed before the first call and never specialised afterwards, so the
// bits of a step do not depend on how many came before. Not thread-safe.
//
// With `activation_checkpointing` of its config a layer is computed again in the backward instead
// of being kept (model/activation_checkpointing.h), to the same bits.
//
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/micro_batch.h"
#include "model/parameters.h"

namespace lmtrain {

class Llama {
 public:
  // `compile`: kEager or kScript, which kGraph is here too. `z_loss`: its weight in the
  // gradient; no loss that is returned has it in it. `fp8`: products with the layers' matrices are
  // lm.fp8_linear. The parameters must outlive the model; their buffers must not be replaced.
  Llama(const ModelConfig& model, Parameters& parameters, int64_t max_length, CompileMode compile,
        double z_loss = 0, bool fp8 = false);
  ~Llama();

  // ids_BT int64, T at most max_length -> logits_BTV in the working dtype. No gradient.
  at::Tensor logits(const at::Tensor& ids);
  // scale x sum of nats, a scalar in fp32. `micro` is on the model's device, here and below.
  at::Tensor loss(const MicroBatch& micro);
  // The same, and its gradient added to (or, if `first`, put into) `grad`, the flat fp32 buffer of
  // the layout. Waits for no device: the same work for every micro-batch of a shape.
  at::Tensor loss_and_gradient(const MicroBatch& micro, const at::Tensor& grad, bool first);

  int64_t max_length() const { return max_length_; }
  const Parameters& parameters() const { return parameters_; }
  at::Device device() const { return parameters_.master().device(); }

 private:
  struct Compiled;
  // cos, sin and segments as the source takes them.
  std::vector<c10::IValue> attention_arguments(const MicroBatch& micro);
  at::Tensor call(const char* function, std::vector<c10::IValue> arguments) const;
  at::Tensor whole_loss(const MicroBatch& micro);
  // The same, keeping of each layer its input alone.
  at::Tensor checkpointed_loss(const MicroBatch& micro);

  Parameters& parameters_;
  int64_t max_length_;
  std::unique_ptr<Compiled> compiled_;
  std::vector<at::Tensor> leaves_;  // working tensors with requires_grad, in the layout's order
  std::vector<int64_t> offsets_;    // of each leaf in the flat buffer
  c10::IValue weights_;
  c10::IValue layers_;
  bool activation_checkpointing_;
  at::Tensor cos_, sin_;
};

}  // namespace lmtrain
