#include "optim/make_optimizer.h"

#include "base/error.h"
#include "optim/parameter_groups.h"

namespace lmtrain {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Parameters& parameters,
                                          const ParameterFilter& takes) {
  check_groups(config, parameters.layout());
  switch (config.type) {
#define LMTRAIN_MAKE_RULE(type, name, source, note, ...) \
  case OptimizerType::type:                              \
    return make_##name(config, parameters, takes);
    LMTRAIN_OPTIMIZERS(LMTRAIN_MAKE_RULE)
#undef LMTRAIN_MAKE_RULE
  }
  throw Error(ErrorKind::kInternal, "optimizer.type is one without a rule");
}

}  // namespace lmtrain
