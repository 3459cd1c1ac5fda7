#include "optim/optimizer.h"

#include "base/error.h"
#include "base/text.h"
#include "optim/adamw.h"

namespace lmtrain {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Parameters& parameters) {
  if (config.type == "adamw") return std::make_unique<AdamW>(config, parameters);
  throw Error(ErrorKind::kConfig, str("optimizer.type \"", config.type,
                                      "\" is not part of this version; use \"adamw\""));
}

}  // namespace lmtrain
