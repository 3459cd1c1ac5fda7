#include "training/step_sum.h"

#include <algorithm>
#include <numeric>

#include "model/weight_pieces.h"
#include "training/step.h"

namespace lmtrain {

namespace {

std::vector<DividedRange> evenly_divided_chunks(const ParameterLayout& layout, int count) {
  std::vector<DividedRange> chunks;
  for (const WeightPiece& chunk : backward_chunks(layout, /*least_layers=*/1))
    chunks.push_back(evenly_divided({chunk.first, chunk.size}, count));
  return chunks;
}

}  // namespace

StepSum::StepSum(Processes& processes, const ParallelConfig& config, Engine& engine,
                 const OptimizerShards& shards, ExchangeLines& lines)
    : processes_(processes), engine_(engine), shards_(shards) {
  if (config.sum == ParallelSum::kExact) parts_.emplace(config.parts, share());
  if (processes.is_only() || shards.divides_weights()) return;
  if (!shards.is_divided() && !lines.are_beside()) return;
  by_chunk_ = std::make_unique<OverlappedSum>(
      lines, engine.layout(),
      shards.is_divided() ? shards.chunks()
                          : evenly_divided_chunks(engine.layout(), processes.count()),
      /*gathers=*/!shards.is_divided());
  overlaps_ = lines.are_beside() && !engine.has_graphs();
}

ElementsFinished StepSum::begin_sum() {
  if (!overlaps_) return {};
  by_chunk_->begin(engine_.gradient());
  return [this](int64_t first, int64_t size) {
    by_chunk_->finish(first, size);
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
    is_spoiled_ = overlaps_ && by_chunk_->has_finished_any();
    if (is_spoiled_) by_chunk_->finish_all();
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
  if (!overlaps_) return;
  by_chunk_->begin(engine_.gradient());
  by_chunk_->finish_all();
}

std::vector<double> StepSum::no_losses() const {
  return std::vector<double>(parts_ ? parts_->parts_of_share() : 1);
}

double StepSum::loss_of(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

void StepSum::end_begun_sum() {
  if (overlaps_) by_chunk_->wait();
}

void StepSum::sum_gradient() {
  if (shards_.divides_weights()) return;  // compute() has done it
  const at::Tensor& gradient = engine_.gradient();
  if (by_chunk_) {
    if (!overlaps_) {
      by_chunk_->begin(gradient);
      by_chunk_->finish_all();
    }
    by_chunk_->wait();
  } else if (parts_) {
    const std::vector<ElementRange> ranges = even_ranges(gradient.numel(), processes_.count());
    processes_.sum_ranges(gradient, ranges);
    processes_.gather_ranges(gradient, ranges);
  } else {
    processes_.sum(gradient);
  }
}

}  // namespace lmtrain
