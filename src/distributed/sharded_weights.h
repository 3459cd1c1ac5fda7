// Divides the weights of a run over its processes (`parallel.shard` "parameters"; ZeRO stage 3,
// Rajbhandari et al. 2020, 1910.02054). Each process keeps weights and gradient of the norms and of
// the ranges that it owns (OptimizerShards::chunks). Before the model uses the weights of a
// module (model/module_weights.h), the processes gather them; after the use they release them. They
// sum a ready gradient into its owners' ranges, and release the rest. A thread makes these
// exchanges while the model computes, over its own connections (Processes::extra_groups) and, on a
// GPU, on a stream of its own (device/side_stream.h).
//
// Flat buffers have the addresses of all weights, so offsets and views are the same as without
// sharding. In host memory released elements take no memory (device/releasable_memory.h). On a GPU
// modules share the memory of slots (device/slotted_memory.h), and a release only lets the next
// module of the slot be gathered. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/side_stream.h"
#include "distributed/comm_thread.h"
#include "distributed/gradient_reducer.h"
#include "distributed/optimizer_shards.h"
#include "distributed/processes.h"
#include "model/module_weights.h"

namespace lmtrain {

class ShardedWeights final : public ModuleWeights, public GradientReducer {
 public:
  // `weights` and `gradient` are flat: in host memory releasable, on a GPU with module_slots()
  // (model/module_weights.h). For evaluations alone `gradient` is undefined. Tests give another
  // `side` than side_stream(). Every process constructs this object at the same point.
  ShardedWeights(Processes& processes, const OptimizerShards& shards, const ParameterLayout& layout,
                 at::Tensor weights, at::Tensor gradient,
                 std::shared_ptr<SideStream> side = nullptr);

  void start(size_t module) override;
  void await() override;
  void release(size_t module) override;

  // The other processes wait for this one in every step. So a step that has begun calls
  // gradient_ready() for each whole module and for the norms, also after a failure; finish() only
  // waits. gradient_ready() throws Error(kInternal) for other elements.
  bool overlaps() const override { return true; }
  void begin_step() override { has_begun_ = true; }
  void gradient_ready(const ElementRange& elements) override;
  bool has_begun() const override { return has_begun_; }
  void finish() override;

 private:
  // Makes an exchange in the thread, behind what the model has queued so far. Returns its number.
  uint64_t exchange_behind(std::function<void(RangeExchange&)> exchange);

  Processes& processes_;
  RangeExchange& exchange_;
  std::shared_ptr<SideStream> side_;
  at::Tensor weights_, gradient_;
  std::vector<DividedRange> modules_;
  DividedRange norms_;
  std::vector<ElementRange> gaps_;  // elements of the modules that are in no tensor
  std::vector<uint64_t> started_;   // the numbers of the gathers that are not awaited
  uint64_t summed_ = 0;             // the number of the last sum
  bool has_begun_ = false;
  CommThread thread_;
};

// Makes `model` read its weights by modules, and returns the object that gathers them, which must
// live as long as the model computes. Returns null unless `shards` divides weights. `gradient` is
// as in the constructor. Every process makes the call at the same point.
std::unique_ptr<ShardedWeights> read_divided_weights(Processes& processes,
                                                     const OptimizerShards& shards, Llama& model,
                                                     const at::Tensor& gradient);

}  // namespace lmtrain
