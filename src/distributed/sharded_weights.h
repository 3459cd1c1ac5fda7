// Divides the weights of a run over its processes (`parallel.shard` "parameters"; ZeRO stage 3,
// Rajbhandari et al. 2020, 1910.02054). Each process keeps weights and gradient of the norms and of
// the ranges that it owns (OptimizerShards::chunks). A piece of weights (model/weight_pieces.h) is
// gathered from its owners before its use and released after it. Its gradient, once final, is
// summed into each owner's range and released elsewhere. One thread exchanges while the next piece
// is computed, over its own connections (Processes::aside).
//
// Flat buffers have the size of all weights, so offsets and views are the same as without sharding.
// Only the weights that are there take memory (device/releasable_memory.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "distributed/optimizer_shards.h"
#include "distributed/processes.h"
#include "distributed/work_line.h"
#include "model/weight_pieces.h"

namespace lmtrain {

class ShardedWeights : public WeightPieces {
 public:
  // `weights` and `gradient` are flat and releasable. Without a gradient to take, `gradient` is
  // undefined. Every process constructs this object at the same point.
  ShardedWeights(Processes& processes, const OptimizerShards& shards, const ParameterLayout& layout,
                 at::Tensor weights, at::Tensor gradient);

  void start(size_t piece) override;
  void await() override;
  void release(size_t piece) override;
  void take_gradient(size_t piece) override;
  void finish_gradient() override;

 private:
  // Returns work for `line_`: the sum of a piece's gradient. It owns the tensors that it uses,
  // since it outlives this object when an exchange hangs.
  std::function<void()> sum_of(const DividedRange& piece) const;

  Processes& processes_;
  RangeExchange& exchange_;
  at::Tensor weights_, gradient_;
  std::vector<DividedRange> pieces_;
  DividedRange norms_;
  std::vector<uint64_t> started_;  // the numbers of the gathers that are not awaited
  uint64_t taken_ = 0;             // the number of the last sum
  WorkLine line_;
};

}  // namespace lmtrain
