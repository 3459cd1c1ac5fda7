#include "batching/micro_batch.h"

#include <algorithm>

namespace lmtrain {

int64_t micro_rows(const Config& config, const MicroBatchLimits& fit, int64_t length) {
  const auto lowered = fit.rows.find(length);
  if (lowered != fit.rows.end()) return lowered->second;
  return std::max<int64_t>(1, std::min(*config.batch.micro_tokens, config.batch.tokens) / length);
}

}  // namespace lmtrain
