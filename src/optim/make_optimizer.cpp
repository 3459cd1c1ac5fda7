#include "optim/make_optimizer.h"

#include "base/error.h"
#include "optim/adam.h"
#include "optim/adamw.h"
#include "optim/ademamix.h"
#include "optim/adopt.h"
#include "optim/lion.h"
#include "optim/mars.h"
#include "optim/muon.h"
#include "optim/parameter_groups.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"
#include "optim/soap.h"

namespace lmtrain {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Parameters& parameters,
                                          const ParameterFilter& takes) {
  check_groups(config, parameters.layout());
  switch (config.type) {
    case OptimizerType::kAdamW:
      return std::make_unique<AdamW>(config, parameters, takes);
    case OptimizerType::kLion:
      return std::make_unique<Lion>(config, parameters, takes);
    case OptimizerType::kSoap:
      return std::make_unique<Soap>(config, parameters, takes);
    case OptimizerType::kAdEMAMix:
      return std::make_unique<AdEMAMix>(config, parameters, takes);
    case OptimizerType::kMuon:
      return std::make_unique<Muon>(config, parameters, takes);
    case OptimizerType::kSgd:
      return std::make_unique<Sgd>(config, parameters, takes);
    case OptimizerType::kRmsProp:
      return std::make_unique<RmsProp>(config, parameters, takes);
    case OptimizerType::kAdam:
      return std::make_unique<Adam>(config, parameters, takes);
    case OptimizerType::kAdopt:
      return std::make_unique<Adopt>(config, parameters, takes);
    case OptimizerType::kMars:
      return std::make_unique<Mars>(config, parameters, takes);
  }
  throw Error(ErrorKind::kInternal, "optimizer.type is one without a rule");
}

}  // namespace lmtrain
