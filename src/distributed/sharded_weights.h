// Divides the weights of a run over its processes (`parallel.shard` "parameters"; ZeRO stage 3,
// Rajbhandari et al. 2020, 1910.02054). Each process keeps weights and gradient of its own ranges
// (OptimizerShards::chunks) and of the norms. The others' pieces (model/weight_pieces.h) are
// gathered from their owners ahead of their use and released after it; the gradient of a piece is
// summed in the ranges of its owners as soon as it is final, and released elsewhere. A thread
// exchanges while the next piece is computed, over connections of its own (Processes::aside).
//
// Flat buffers have the size of all weights, and the memory of what is there alone
// (device/releasable_memory.h), so offsets and views are those of an undivided run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "model/weight_pieces.h"
#include "distributed/processes.h"
#include "distributed/optimizer_shards.h"
#include "distributed/work_line.h"

namespace lmtrain {

class ShardedWeights : public WeightPieces {
 public:
  // `weights` and `gradient` are flat and releasable; no gradient is taken where it is undefined.
  // Every process makes it at the same point.
  ShardedWeights(Processes& processes, const OptimizerShards& shards, const ParameterLayout& layout,
                 at::Tensor weights, at::Tensor gradient);

  void start(size_t piece) override;
  void await() override;
  void release(size_t piece) override;
  void take_gradient(size_t piece) override;
  void finish_gradient() override;

 private:
  // Work may outlive this object where an exchange hangs, so it has all that it uses.
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
