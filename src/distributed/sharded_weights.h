// Divides the weights of a run over its processes (`parallel.shard` "parameters"; ZeRO stage 3,
// Rajbhandari et al. 2020, 1910.02054). Each process keeps weights and gradient of the norms and of
// the ranges that it owns (OptimizerShards::chunks). A piece of weights (model/weight_pieces.h) is
// gathered from its owners before its use and released after it. Its gradient, once ready, is
// summed into each owner's range and released elsewhere. One thread exchanges while the next piece
// is computed, over its own connections (Processes::extra_groups).
//
// Flat buffers have the size of all weights, so offsets and views are the same as without sharding.
// Only the weights that are there take memory (device/releasable_memory.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "distributed/comm_thread.h"
#include "distributed/gradient_reducer.h"
#include "distributed/optimizer_shards.h"
#include "distributed/processes.h"
#include "model/weight_pieces.h"

namespace lmtrain {

class ShardedWeights final : public WeightPieces, public GradientReducer {
 public:
  // `weights` and `gradient` are flat and releasable. Without a gradient to sum, `gradient` is
  // undefined. Every process constructs this object at the same point.
  ShardedWeights(Processes& processes, const OptimizerShards& shards, const ParameterLayout& layout,
                 at::Tensor weights, at::Tensor gradient);

  void start(size_t piece) override;
  void await() override;
  void release(size_t piece) override;

  // The other processes wait for this one's weights and gradients in every step. So a step that has
  // begun hands over every piece and the norms, one by one, also after a failure.
  bool overlaps() const override { return true; }
  void begin_step() override { has_begun_ = true; }
  void gradient_ready(const ElementRange& elements) override;
  bool has_begun() const override { return has_begun_; }
  void finish() override;

 private:
  Processes& processes_;
  RangeExchange& exchange_;
  at::Tensor weights_, gradient_;
  std::vector<DividedRange> pieces_;
  DividedRange norms_;
  std::vector<uint64_t> started_;  // the numbers of the gathers that are not awaited
  uint64_t summed_ = 0;            // the number of the last sum
  bool has_begun_ = false;
  CommThread thread_;
};

// Makes `model` read its weights from their owners, and returns the object that gathers them; null
// unless `shards` divides weights. `gradient` is the flat gradient; undefined for evaluations only.
// The object must live as long as the model computes. Every process makes the call at the same
// point.
std::unique_ptr<ShardedWeights> read_divided_weights(Processes& processes,
                                                     const OptimizerShards& shards, Llama& model,
                                                     const at::Tensor& gradient);

}  // namespace lmtrain
