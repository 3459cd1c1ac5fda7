#include "run/shared/step_sum.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "device/device.h"
#include "train/step.h"

namespace lmtrain {

namespace {

// A chunk of so many elements, a megabyte, is worth the messages of its own sum.
constexpr int64_t kChunkElements = int64_t{1} << 18;
// Returns how many chunks are on their way at once. Each needs a connection to every other process,
// of which a process has some hundred at most: the files that it may open are limited.
int chunks_at_once(int count) { return std::clamp(128 / count, 1, 8); }

// Asks rank 0, since all must exchange alike. Where the optimizer is divided a chunk goes to one
// owner, over each link in one direction, which takes up to twice as long with two processes.
bool overlap_is_wanted(Processes& processes, bool is_divided) {
  const char* const variable = std::getenv("LMTRAIN_OVERLAP");
  const std::string value = processes.broadcast(std::string(variable == nullptr ? "" : variable));
  if (value == "on") return true;
  if (value == "off") return false;
  if (value.empty() || value == "auto") return !is_divided;
  throw Error(ErrorKind::kUsage,
              str("the variable LMTRAIN_OVERLAP is \"", value, "\"; allowed: auto, on, off"));
}

}  // namespace

StepSum::StepSum(Processes& processes, const ParallelConfig& config, Engine& engine,
                 const OptimizerShards& shards)
    : processes_(processes), engine_(engine), shards_(shards) {
  if (config.sum == ParallelSum::kExact) parts_.emplace(config.parts, share());
  if (shards.divides_weights()) return;
  if (processes.is_only() || !engine.device().is_cpu() || engine.has_graphs()) return;
  if (!overlap_is_wanted(processes, shards.is_divided())) return;
  overlap_ = std::make_unique<OverlappedSum>(
      processes.aside(chunks_at_once(processes.count())),
      chunks_of(engine.layout(), shards.needed_ranges(), processes.count(), kChunkElements),
      /*gathers=*/!shards.is_divided());
}

ElementsFinished StepSum::begin_sum() {
  if (!overlap_) return {};
  overlap_->begin(engine_.gradient());
  return [this](int64_t first, int64_t size) {
    overlap_->finish(first, size);
    if (after_elements) after_elements();
  };
}

std::vector<double> StepSum::compute(const Batch& share, int64_t micro_rows, double loss_scale) {
  is_spoiled_ = false;
  if (shards_.divides_weights()) return compute_by_pieces(share, micro_rows, loss_scale);
  const ElementsFinished finished = begin_sum();
  try {
    if (parts_) return engine_.forward_backward(*parts_, share, micro_rows, loss_scale, finished);
    return {engine_.forward_backward(share, micro_rows, loss_scale, /*use_graphs=*/true, finished)};
  } catch (...) {
    is_spoiled_ = overlap_ && overlap_->has_finished_any();
    if (is_spoiled_) overlap_->finish_all();
    throw;
  }
}

std::vector<double> StepSum::compute_by_pieces(const Batch& share, int64_t micro_rows,
                                               double loss_scale) {
  try {
    return accumulate_by_pieces(
        engine_.model(), share,
        parts_ ? parts_->rows_of_share(share) : std::vector<RowRange>{{0, share.rows}}, micro_rows,
        engine_.gradient(), loss_scale);
  } catch (...) {
    is_spoiled_ = true;
    throw;
  }
}

void StepSum::take_part_without_rows() {
  if (shards_.divides_weights()) {
    engine_.model().loss_and_gradient_by_pieces({{}}, engine_.gradient(), 1);
    return;
  }
  if (!overlap_) return;
  overlap_->begin(engine_.gradient());
  overlap_->finish_all();
}

std::vector<double> StepSum::no_losses() const {
  return std::vector<double>(parts_ ? parts_->parts_of_share() : 1);
}

double StepSum::loss_of(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

void StepSum::end_begun_sum() {
  if (overlap_) overlap_->wait();
}

void StepSum::sum_gradient() {
  if (overlap_) return overlap_->wait();
  if (shards_.divides_weights()) return;  // compute() has done it
  const at::Tensor& gradient = engine_.gradient();
  if (shards_.is_divided()) {
    processes_.sum_ranges(gradient, shards_.needed_ranges());
  } else if (parts_) {
    const std::vector<ElementRange> ranges = even_ranges(gradient.numel(), processes_.count());
    processes_.sum_ranges(gradient, ranges);
    processes_.gather_ranges(gradient, ranges);
  } else {
    processes_.sum(gradient);
  }
}

}  // namespace lmtrain
