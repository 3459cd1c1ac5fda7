#include "run/shared/step_sum.h"

#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

StepSum::StepSum(Processes& processes, const ParallelConfig& config) : processes_(processes) {
  if (config.sum == ParallelSum::kExact) parts_.emplace(config.parts, share());
}

std::vector<double> StepSum::compute(Engine& engine, const Batch& share, int64_t micro_rows,
                                     double loss_scale) {
  if (parts_) return engine.forward_backward(*parts_, share, micro_rows, loss_scale);
  return {engine.forward_backward(share, micro_rows, loss_scale)};
}

double StepSum::loss_of(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

void StepSum::sum_gradient(Engine& engine) {
  if (parts_) {
    processes_.sum_as_tree(engine.gradient());
  } else {
    processes_.sum(engine.gradient());
  }
}

void check_processes(const Processes& processes, const ParallelConfig& config) {
  if (processes.is_only()) return;
  if (config.shard != ParallelShard::kNone) {
    throw Error(
        ErrorKind::kConfig,
        str("parallel.shard is \"", name_of(config.shard),
            "\", which this lmtrain does not have yet for several processes; allowed: none"));
  }
  const auto count = static_cast<uint64_t>(processes.count());
  if (config.sum == ParallelSum::kExact &&
      (!std::has_single_bit(count) || processes.count() > config.parts)) {
    throw Error(ErrorKind::kConfig,
                str("parallel.sum is \"exact\", and there are ", count,
                    " processes; allowed: a power of two, up to parallel.parts (", config.parts,
                    "); or set parallel.sum to \"fast\""));
  }
}

}  // namespace lmtrain
