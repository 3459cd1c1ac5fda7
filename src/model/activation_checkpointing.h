// Activation checkpointing (Chen et al., "Training Deep Nets with Sublinear Memory Cost",
// 1604.06174): a layer that keeps nothing for its backward but its input, and is computed a second
// time there. The same operators run on the same numbers, so the gradient has the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lmtrain {

using LayerFunction = std::function<at::Tensor(const at::Tensor& x)>;

// layer(x), for a gradient with respect to x and `weights`, the leaves that `layer` reads. What
// `layer` refers to must live until the backward.
at::Tensor checkpointed(const LayerFunction& layer, const at::Tensor& x, at::TensorList weights);

}  // namespace lmtrain
