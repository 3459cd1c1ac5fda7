#include "optim/parameter_groups.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

bool matches(const OptimizerGroupConfig& group, const ParameterSpec& spec) {
  return fnmatch(group.pattern.c_str(), spec.name.c_str(), 0) == 0;
}

}  // namespace

ParameterGroup group_of(const OptimizerConfig& config, const ParameterSpec& spec) {
  ParameterGroup result{1.0, spec.shape.size() >= 2 ? config.weight_decay : 0.0};
  for (const OptimizerGroupConfig& group : config.groups) {
    if (!matches(group, spec)) continue;
    if (group.lr) result.lr_ratio = *group.lr / config.lr;
    if (group.weight_decay) result.weight_decay = *group.weight_decay;
    break;
  }
  return result;
}

bool is_hidden_matrix(const ParameterSpec& spec) {
  return spec.shape.size() == 2 && spec.name.starts_with("model.layers.");
}

void check_groups(const OptimizerConfig& config, const ParameterLayout& layout) {
  for (size_t i = 0; i < config.groups.size(); ++i) {
    const OptimizerGroupConfig& group = config.groups[i];
    const bool any = std::ranges::any_of(
        layout.parameters(), [&](const ParameterSpec& spec) { return matches(group, spec); });
    if (any) continue;
    throw Error(ErrorKind::kConfig,
                str("/optimizer/groups/", i, "/pattern: \"", group.pattern,
                    "\" matches no tensor of the model; names are like \"",
                    layout.parameters().front().name, "\" and \"", layout.parameters().back().name,
                    "\", and * stands for any part of one"));
  }
}

}  // namespace lmtrain
