#include "optim/optimizer.h"

#include "base/error.h"
#include "base/text.h"
#include "optim/adamw.h"
#include "optim/ademamix.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/parameter_groups.h"
#include "optim/soap.h"

namespace lmtrain {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Parameters& parameters) {
  check_groups(config, parameters.layout());
  if (config.type == "adamw") return std::make_unique<AdamW>(config, parameters);
  if (config.type == "lion") return std::make_unique<Lion>(config, parameters);
  if (config.type == "ademamix") return std::make_unique<AdEMAMix>(config, parameters);
  if (config.type == "muon") return std::make_unique<Muon>(config, parameters);
  if (config.type == "soap") return std::make_unique<Soap>(config, parameters);
  throw Error(ErrorKind::kInternal, str("optimizer.type \"", config.type, "\" has no rule"));
}

}  // namespace lmtrain
