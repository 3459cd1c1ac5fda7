#include "distributed/gradient_reducer.h"

#include <algorithm>
#include <utility>

#include "base/activities.h"
#include "device/torch_headers.h"
#include "distributed/sharded_weights.h"
#include "model/llama.h"
#include "model/module_weights.h"

namespace lmtrain {
namespace {

// Sums the whole gradient at once, after the backward pass, in the fastest order. The gradient of
// one process is the sum.
class WholeReducer final : public GradientReducer {
 public:
  WholeReducer(Processes& processes, at::Tensor gradient)
      : processes_(processes), gradient_(std::move(gradient)) {}

  bool overlaps() const override { return false; }
  void begin_step() override {}
  void gradient_ready(const ElementRange& /*elements*/) override {}
  bool has_begun() const override { return false; }
  void finish() override { processes_.all_reduce(gradient_); }

 private:
  Processes& processes_;
  at::Tensor gradient_;
};

std::vector<DividedRange> evenly_divided_chunks(const ParameterLayout& layout, int count) {
  std::vector<DividedRange> chunks;
  for (const ElementRange& chunk : backward_chunks(layout, /*least_layers=*/1))
    chunks.push_back(evenly_divided(chunk, count));
  return chunks;
}

}  // namespace

ChunkReducer::ChunkReducer(CommThreads& threads, const ParameterLayout& layout, at::Tensor gradient,
                           std::vector<DividedRange> chunks, bool gathers)
    : threads_(threads),
      gradient_(std::move(gradient)),
      chunks_(std::make_shared<const std::vector<DividedRange>>(std::move(chunks))),
      gathers_(gathers) {
  for (const DividedRange& chunk : *chunks_) {
    int64_t& numel = numels_.emplace_back(0);
    for (const ParameterSpec& spec : layout.parameters())
      numel += common(chunk.elements, {spec.offset, spec.numel()}).size;
  }
}

void ChunkReducer::begin_step() {
  unready_ = numels_;
  next_ = 0;
  has_begun_ = false;
}

void ChunkReducer::gradient_ready(const ElementRange& elements) {
  has_begun_ = true;
  for (size_t i = 0; i < chunks_->size(); ++i)
    unready_[i] -= common((*chunks_)[i].elements, elements).size;
  sum_ready();
}

void ChunkReducer::sum_ready() {
  for (; next_ < chunks_->size() && unready_[next_] <= 0; ++next_) {
    threads_.add(next_, [chunks = chunks_, gathers = gathers_, gradient = gradient_,
                         chunk = next_](RangeExchange& exchange) {
      const Activity summing("summing gradients over the processes");
      const std::vector<ElementRange>& ranges = (*chunks)[chunk].ranges;
      exchange.reduce_scatter(gradient, ranges);
      if (gathers) exchange.all_gather(gradient, ranges);
    });
  }
}

void ChunkReducer::finish() {
  std::fill(unready_.begin(), unready_.end(), 0);
  sum_ready();
  threads_.wait();
  has_begun_ = false;
}

std::unique_ptr<GradientReducer> make_gradient_reducer(Processes& processes,
                                                       const ParallelConfig& config,
                                                       OptimizerShards& shards, Llama& model,
                                                       const at::Tensor& gradient) {
  const ParameterLayout& layout = model.parameters().layout();
  if (processes.is_only()) return std::make_unique<WholeReducer>(processes, gradient);
  if (shards.divides_weights()) return read_divided_weights(processes, shards, model, gradient);
  const auto by_chunk = [&](std::vector<DividedRange> chunks, bool gathers) {
    return std::make_unique<ChunkReducer>(shards.threads(), layout, gradient, std::move(chunks),
                                          gathers);
  };
  if (shards.is_divided()) return by_chunk(shards.chunks(), /*gathers=*/false);
  if (shards.threads().are_beside())
    return by_chunk(evenly_divided_chunks(layout, processes.count()), /*gathers=*/true);
  if (config.sum == ParallelSum::kExact)
    return by_chunk({evenly_divided({0, gradient.numel()}, processes.count())}, /*gathers=*/true);
  return std::make_unique<WholeReducer>(processes, gradient);
}

}  // namespace lmtrain
