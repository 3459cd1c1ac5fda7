// Which learning rate and weight decay a tensor has: `optimizer.groups`, the first whose glob
// matches the tensor's HF name, else the defaults. Decay by default is on every tensor of two or
// more dimensions, embeddings included, and on none of one.
#pragma once

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

struct ParameterGroup {
  double lr_ratio = 1;  // to the rate of the schedule: a group's own lr over optimizer.lr
  double weight_decay = 0;
  bool operator==(const ParameterGroup&) const = default;
};

ParameterGroup group_of(const OptimizerConfig& config, const ParameterSpec& spec);

// A matrix inside a layer: q, k, v, o, gate, up, down; not the embeddings or the head.
bool is_hidden_matrix(const ParameterSpec& spec);

// Error(kConfig) naming the pattern of a group that matches no tensor: a typing error, most likely.
void check_groups(const OptimizerConfig& config, const ParameterLayout& layout);

}  // namespace lmtrain
