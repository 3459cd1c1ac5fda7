#include "distributed/sharded_weights.h"

#include <algorithm>
#include <utility>

#include "base/activities.h"
#include "device/releasable_memory.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// Releases the pages of `elements` of a flat buffer that are not in `kept`.
void release_outside(const at::Tensor& flat, const ElementRange& elements,
                     const ElementRange& kept) {
  const int64_t before = std::min(elements.end(), kept.first);
  if (before > elements.first)
    release_pages(flat.narrow(0, elements.first, before - elements.first));
  const int64_t after = std::max(elements.first, kept.end());
  if (elements.end() > after) release_pages(flat.narrow(0, after, elements.end() - after));
}

}  // namespace

ShardedWeights::ShardedWeights(Processes& processes, const OptimizerShards& shards,
                               const ParameterLayout& layout, at::Tensor weights,
                               at::Tensor gradient)
    : processes_(processes),
      exchange_(*processes.aside(1).front()),
      weights_(std::move(weights)),
      gradient_(std::move(gradient)) {
  for (const WeightPiece& piece : weight_pieces(layout))
    pieces_.push_back(shards.divided({piece.first, piece.size}));
  norms_ = shards.divided(shards.norms());
}

void ShardedWeights::start(size_t piece) {
  started_.push_back(
      line_.add([&exchange = exchange_, weights = weights_, ranges = pieces_.at(piece).ranges] {
        const Activity gathering("gathering weights from the processes");
        exchange.gather_ranges(weights, ranges);
      }));
}

void ShardedWeights::await() {
  line_.wait(started_.front());
  started_.erase(started_.begin());
}

void ShardedWeights::release(size_t piece) {
  const auto rank = static_cast<size_t>(processes_.rank());
  release_outside(weights_, pieces_.at(piece).elements, pieces_[piece].ranges[rank]);
}

std::function<void()> ShardedWeights::sum_of(const DividedRange& piece) const {
  return [&exchange = exchange_, gradient = gradient_, piece,
          rank = static_cast<size_t>(processes_.rank())] {
    const Activity summing("summing gradients over the processes");
    exchange.sum_ranges(gradient, piece.ranges);
    release_outside(gradient, piece.elements, piece.ranges[rank]);
  };
}

void ShardedWeights::take_gradient(size_t piece) {
  if (taken_ > 0) line_.wait(taken_);  // so that one piece waits for its sum, and no more
  taken_ = line_.add(sum_of(pieces_.at(piece)));
}

void ShardedWeights::finish_gradient() { line_.wait(line_.add(sum_of(norms_))); }

}  // namespace lmtrain
