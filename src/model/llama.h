// A Llama that runs: the TorchScript source compiled for one configuration, bound to working
// weights.
//
// `eager` runs the compiled graph as written; `script` first inlines it, unrolls the layers and
// folds constants. Either is fixed before the first call and never specialised afterwards, so the
// bits of a step do not depend on how many came before. Not thread-safe.
//
// With `activation_checkpointing` of its config a layer is computed again in the backward instead
// of being kept (model/recompute.h), to the same bits.
//
// `segments` are those of batching/batch.h: the flattened places where a piece of a document
// begins, every row's first place among them. Attention and positions stay inside a segment. None:
// every row is one.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

class Llama {
 public:
  // `compile`: "eager" or "script". `z_loss`: its weight in the gradient; no loss that is returned
  // has it in it. The parameters must outlive the model; their buffers must not be replaced.
  Llama(const ModelConfig& model, Parameters& parameters, int64_t max_length,
        const std::string& compile, double z_loss = 0);
  ~Llama();

  // ids_BT int64, T at most max_length -> logits_BTV in the working dtype. No gradient.
  at::Tensor logits(const at::Tensor& ids);
  // targets_BT int64, negative where nothing is predicted -> scale x sum of nats, a scalar in fp32.
  at::Tensor loss(const at::Tensor& ids, const at::Tensor& targets, double scale,
                  const std::vector<int32_t>& segments = {});
  // The same, and its gradient added to (or, if `first`, put into) `grad`, the flat fp32 buffer of
  // the layout. The gradient alone is multiplied by `grad_scale` on its way (fp16).
  at::Tensor loss_and_gradient(const at::Tensor& ids, const at::Tensor& targets, double scale,
                               const at::Tensor& grad, bool first,
                               const std::vector<int32_t>& segments = {}, double grad_scale = 1);

  int64_t max_length() const { return max_length_; }
  const Parameters& parameters() const { return parameters_; }
  at::Device device() const { return parameters_.master().device(); }

 private:
  struct Compiled;
  // cos, sin and segments as the source takes them.
  std::vector<c10::IValue> places(const at::Tensor& ids, const std::vector<int32_t>& segments);
  at::Tensor call(const char* function, std::vector<c10::IValue> arguments) const;
  at::Tensor run(const char* function, const at::Tensor& ids, std::vector<c10::IValue> arguments,
                 const std::vector<int32_t>& segments);
  // run("loss", ...) that keeps of each layer its input alone.
  at::Tensor checkpointed_loss(const at::Tensor& ids, const at::Tensor& targets, double scale,
                               const std::vector<int32_t>& segments);

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
