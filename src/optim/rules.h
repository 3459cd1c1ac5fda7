// The update rules. Each is a file of this room that has its formula and source at its head;
// make_optimizer.h chooses among them by optimizer.type.
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace lmtrain {

// Makes a rule for the tensors for which `takes` returns true. The parameters must outlive it.
using MakeRule = std::unique_ptr<Optimizer>(const OptimizerConfig& config, Parameters& parameters,
                                            const ParameterFilter& takes);

MakeRule make_adam, make_adamw, make_ademamix, make_adopt, make_lion, make_mars, make_muon,
    make_rmsprop, make_sgd, make_soap;

}  // namespace lmtrain
