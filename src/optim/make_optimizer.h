// Makes the optimizer that the config names: the table of the rules.
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace lmtrain {

// Makes the optimizer of the config, for the tensors for which `takes` returns true; the others it
// leaves as they are. The parameters must outlive it. Throws Error(kConfig) for a group that
// matches no tensor of the model.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Parameters& parameters,
                                          const ParameterFilter& takes = every_parameter);

}  // namespace lmtrain
