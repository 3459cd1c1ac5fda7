// Computes a layer with activation checkpointing (Chen et al., "Training Deep Nets with Sublinear
// Memory Cost", 1604.06174): it keeps nothing for its backward but its input, and is computed a
// second time there. The same operators run on the same numbers, so the gradient has the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lmtrain {

using LayerFunction = std::function<at::Tensor(const at::Tensor& x)>;

// Returns layer(x), whose backward gives the gradients of x and of `weights`, the leaves that
// `layer` reads. Everything that `layer` refers to must live until the backward.
at::Tensor checkpointed(const LayerFunction& layer, const at::Tensor& x, at::TensorList weights);

}  // namespace lmtrain
