// Chooses the learning rate and weight decay of a tensor. The first group of `optimizer.groups`
// whose glob matches the tensor's HF name sets them. A value that it does not set, or any value
// without a group, is the default. By default every tensor of two or more dimensions has weight
// decay, embeddings included, and a one-dimensional tensor has none.
#pragma once

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

struct ParameterGroup {
  double lr_ratio = 1;  // the group's lr / optimizer.lr, a factor of the schedule's rate
  double weight_decay = 0;
  bool operator==(const ParameterGroup&) const = default;
};

// Returns the learning rate and weight decay of a tensor.
ParameterGroup group_of(const OptimizerConfig& config, const ParameterSpec& spec);

// Returns whether the tensor is a matrix inside a layer (q, k, v, o, gate, up, down). Embeddings
// and the head are not.
bool is_hidden_matrix(const ParameterSpec& spec);

// Throws Error(kConfig) if the pattern of a group matches no tensor, which is most likely a typing
// error. The message names the pattern.
void check_groups(const OptimizerConfig& config, const ParameterLayout& layout);

}  // namespace lmtrain
