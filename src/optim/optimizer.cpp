#include "optim/optimizer.h"

#include "base/error.h"
#include "optim/adamw.h"
#include "optim/ademamix.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/parameter_groups.h"
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
  }
  throw Error(ErrorKind::kInternal, "optimizer.type is one without a rule");
}

}  // namespace lmtrain
