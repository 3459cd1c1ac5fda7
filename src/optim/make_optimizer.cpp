#include "optim/make_optimizer.h"

#include "base/error.h"
#include "optim/parameter_groups.h"
#include "optim/rules.h"

namespace lmtrain {

namespace {

struct Rule {
  OptimizerType type;
  MakeRule* make;
};
constexpr Rule kRules[] = {
    {OptimizerType::kAdamW, make_adamw},     {OptimizerType::kLion, make_lion},
    {OptimizerType::kSoap, make_soap},       {OptimizerType::kAdEMAMix, make_ademamix},
    {OptimizerType::kMuon, make_muon},       {OptimizerType::kSgd, make_sgd},
    {OptimizerType::kRmsProp, make_rmsprop}, {OptimizerType::kAdam, make_adam},
    {OptimizerType::kAdopt, make_adopt},     {OptimizerType::kMars, make_mars},
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Parameters& parameters,
                                          const ParameterFilter& takes) {
  check_groups(config, parameters.layout());
  for (const Rule& rule : kRules)
    if (rule.type == config.type) return rule.make(config, parameters, takes);
  throw Error(ErrorKind::kInternal, "optimizer.type is one without a rule");
}

}  // namespace lmtrain
