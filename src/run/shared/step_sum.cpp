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

std::vector<double> StepSum::no_losses() const {
  return std::vector<double>(parts_ ? parts_->parts_of_share() : 1);
}

double StepSum::loss_of(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

void StepSum::sum_gradient(Engine& engine, const OptimizerShards& shards) {
  const at::Tensor& gradient = engine.gradient();
  if (shards.is_divided()) {
    processes_.sum_ranges(gradient, shards.needed_ranges());
  } else if (parts_) {
    const std::vector<ElementRange> ranges = even_ranges(gradient.numel(), processes_.count());
    processes_.sum_ranges(gradient, ranges);
    processes_.gather_ranges(gradient, ranges);
  } else {
    processes_.sum(gradient);
  }
}

void check_processes(const Processes& processes, const ParallelConfig& config) {
  if (processes.is_only()) return;
  if (config.shard == ParallelShard::kParameters) {
    throw Error(
        ErrorKind::kConfig,
        "parallel.shard is \"parameters\", which this lmtrain does not have yet for several "
        "processes; allowed: none, optimizer");
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
