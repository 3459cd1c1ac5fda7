// Chooses the learning rate and weight decay of a tensor. The first group of `optimizer.groups`
// whose glob matches the tensor's HF name sets them; a value that no group sets is the default:
// optimizer.lr, and optimizer.weight_decay for tensors of two or more dimensions, embeddings
// included, or 0 for one-dimensional tensors.
#pragma once

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

struct ParameterGroup {
  double lr_ratio = 1;  // the group's lr / optimizer.lr, a factor on the schedule's rate
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
