// Activation checkpointing (Chen et al., "Training Deep Nets with Sublinear Memory Cost",
// 1604.06174): a layer keeps only its input for the backward, which computes the layer a second
// time. The same operators run on the same numbers, so the gradient has the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lmtrain {

using LayerFunction = std::function<at::Tensor(const at::Tensor& x)>;

// Returns layer(x), whose backward calls `layer` again and gives the gradients of x and of
// `weights`, the leaves that `layer` reads. All that `layer` refers to must live until then.
at::Tensor checkpointed(const LayerFunction& layer, const at::Tensor& x, at::TensorList weights);

}  // namespace lmtrain
