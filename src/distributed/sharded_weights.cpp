#include "distributed/sharded_weights.h"

#include <algorithm>
#include <utility>

#include "base/activities.h"
#include "base/error.h"
#include "base/text.h"
#include "device/releasable_memory.h"
#include "device/torch_headers.h"
#include "model/llama.h"

namespace lmtrain {
namespace {

// Releases the pages of `elements` of a flat buffer that are not in `kept`. On a GPU they are of a
// slot, which another module overwrites.
void release_outside(const at::Tensor& flat, const ElementRange& elements,
                     const ElementRange& kept) {
  if (!flat.is_cpu()) return;
  const int64_t before = std::min(elements.end(), kept.first);
  if (before > elements.first)
    release_pages(flat.narrow(0, elements.first, before - elements.first));
  const int64_t after = std::max(elements.first, kept.end());
  if (elements.end() > after) release_pages(flat.narrow(0, after, elements.end() - after));
}

}  // namespace

ShardedWeights::ShardedWeights(Processes& processes, const OptimizerShards& shards,
                               const ParameterLayout& layout, at::Tensor weights,
                               at::Tensor gradient, std::shared_ptr<SideStream> side)
    : processes_(processes),
      exchange_(*processes.extra_groups(1, weights.device()).front()),
      side_(side ? std::move(side) : side_stream(weights.device())),
      weights_(std::move(weights)),
      gradient_(std::move(gradient)) {
  for (const ElementRange& module : module_ranges(layout))
    modules_.push_back(shards.divided(module));
  norms_ = shards.divided(shards.norms());
  int64_t end = 0;
  for (const ParameterSpec& spec : layout.parameters()) {
    if (spec.offset > end) gaps_.push_back({end, spec.offset - end});
    end = spec.offset + spec.numel();
  }
  if (end < layout.flat_size()) gaps_.push_back({end, layout.flat_size() - end});
}

// The work owns or shares what it uses, since it outlives this object when an exchange hangs.
uint64_t ShardedWeights::exchange_behind(std::function<void(RangeExchange&)> exchange) {
  return thread_.add(
      [&connections = exchange_, side = side_, mark = side_->mark(),
       exchange = std::move(exchange)] { side->after(mark, [&] { exchange(connections); }); });
}

void ShardedWeights::start(size_t module) {
  started_.push_back(exchange_behind(
      [weights = weights_, ranges = modules_.at(module).ranges](RangeExchange& exchange) {
        const Activity gathering("gathering weights from the processes");
        exchange.all_gather(weights, ranges);
      }));
}

void ShardedWeights::await() {
  thread_.wait(started_.front());
  started_.erase(started_.begin());
}

void ShardedWeights::release(size_t module) {
  const auto rank = static_cast<size_t>(processes_.rank());
  release_outside(weights_, modules_.at(module).elements, modules_[module].ranges[rank]);
}

void ShardedWeights::gradient_ready(const ElementRange& elements) {
  const auto found =
      std::find_if(modules_.begin(), modules_.end(),
                   [&](const DividedRange& module) { return module.elements == elements; });
  const DividedRange& ready = found == modules_.end() ? norms_ : *found;
  if (!(ready.elements == elements))
    throw Error(ErrorKind::kInternal, str("the elements from ", elements.first, " are no module"));
  // A slot has the values of another module there.
  for (const ElementRange& gap : gaps_) {
    const ElementRange common_gap = common(gap, ready.elements);
    if (common_gap.size > 0) common_gap.of(gradient_).zero_();
  }
  if (summed_ > 0) thread_.wait(summed_);  // at most one module waits for its sum
  summed_ =
      exchange_behind([gradient = gradient_, ready,
                       rank = static_cast<size_t>(processes_.rank())](RangeExchange& exchange) {
        const Activity summing("summing gradients over the processes");
        exchange.reduce_scatter(gradient, ready.ranges);
        release_outside(gradient, ready.elements, ready.ranges[rank]);
      });
}

void ShardedWeights::finish() {
  thread_.wait(summed_);
  has_begun_ = false;
}

std::unique_ptr<ShardedWeights> read_divided_weights(Processes& processes,
                                                     const OptimizerShards& shards, Llama& model,
                                                     const at::Tensor& gradient) {
  if (!shards.divides_weights()) return nullptr;
  auto weights = std::make_unique<ShardedWeights>(processes, shards, model.parameters().layout(),
                                                  model.parameters().working(), gradient);
  model.read_by_modules(*weights);
  return weights;
}

}  // namespace lmtrain
