// Tells which learning rate and weight decay a tensor has: those of the first of `optimizer.groups`
// whose glob matches the tensor's HF name, else the defaults. By default every tensor of two or
// more dimensions has weight decay, embeddings included, and a tensor of one has none.
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

// Returns whether it is a matrix inside a layer: q, k, v, o, gate, up, down; not the embeddings or
// the head.
bool is_hidden_matrix(const ParameterSpec& spec);

// Throws Error(kConfig) naming the pattern of a group that matches no tensor: a typing error, most
// likely.
void check_groups(const OptimizerConfig& config, const ParameterLayout& layout);

}  // namespace lmtrain
