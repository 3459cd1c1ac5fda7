// Makes the optimizer that the config names. Each rule is a file NAME.cpp of this room, with
// formula and source at its head, and a line of LMTRAIN_OPTIMIZERS in config/config.h.
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace lmtrain {

// Returns the optimizer of the config. It updates only the tensors for which `takes` returns true.
// The parameters must outlive it. Throws Error(kConfig) for a group that matches no tensor of the
// model.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Parameters& parameters,
                                          const ParameterFilter& takes = every_parameter);

// Makes one rule, with the same arguments; does not check the groups.
using MakeRule = std::unique_ptr<Optimizer>(const OptimizerConfig& config, Parameters& parameters,
                                            const ParameterFilter& takes);
// Declares make_adamw() and so on; NAME.cpp defines make_NAME().
#define LMTRAIN_DECLARE_RULE(type, name, source, note, ...) MakeRule make_##name;
LMTRAIN_OPTIMIZERS(LMTRAIN_DECLARE_RULE)
#undef LMTRAIN_DECLARE_RULE

}  // namespace lmtrain
