// Sums the gradient of a step over the processes of a run. A process hands over elements of its
// flat gradient as the backward pass finishes them, so their sum goes on beside the computation.
//
//   one process        nothing is summed
//   whole weights      every process gets the whole sum; with a divided optimizer it gets the sum
//                      of the tensors that it updates (distributed/optimizer_shards.h)
//   divided weights    every process gets and keeps the sum of its own ranges
//                      (distributed/sharded_weights.h)
//
// Every process must make the same calls of begin_step() and finish(). Only one thread may call an
// object at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "config/config.h"
#include "distributed/comm_thread.h"
#include "distributed/optimizer_shards.h"
#include "distributed/processes.h"
#include "distributed/ranges.h"
#include "model/parameters.h"

namespace lmtrain {

class Llama;

class GradientReducer {
 public:
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  virtual ~GradientReducer() = default;

  // Returns whether elements are summed as soon as they are ready. If not, finish() sums all.
  virtual bool overlaps() const = 0;
  // Begins a step: no element of its gradient is ready. While has_begun() is false, as after an
  // early error, the process may begin the step again.
  virtual void begin_step() = 0;
  // Marks elements of the gradient as ready: they are final, and nobody writes them before finish()
  // returns. Call it once a step for each element of a tensor. Gaps may be left out.
  virtual void gradient_ready(const ElementRange& elements) = 0;
  // Returns whether the other processes rely on this step's gradient. A process that fails then
  // must call finish() as the others do, and all discard the sum.
  virtual bool has_begun() const = 0;
  // Waits for the sum. First marks all other elements as ready, whatever their values; with divided
  // weights all must be ready already. All processes that get an element's sum get the same bits.
  // Rethrows the error of an exchange.
  virtual void finish() = 0;

 protected:
  GradientReducer() = default;
};

// A ChunkReducer sums the gradient chunk by chunk, in the order in which the backward pass finishes
// them (backward_chunks() of model/module_weights.h). A process begins the sum of a chunk once the
// chunk and all earlier chunks are ready. All processes use this order, so they need not tell each
// other which chunk comes next.
class ChunkReducer final : public GradientReducer {
 public:
  // `chunks` cover the layout. Each process gets the sum of its own range of a chunk; if `gathers`,
  // of the whole chunk. `threads` must outlive this object.
  ChunkReducer(CommThreads& threads, const ParameterLayout& layout, at::Tensor gradient,
               std::vector<DividedRange> chunks, bool gathers);

  bool overlaps() const override { return threads_.are_beside(); }
  void begin_step() override;
  void gradient_ready(const ElementRange& elements) override;
  bool has_begun() const override { return has_begun_; }
  void finish() override;

 private:
  // Begins the sums of ready chunks, up to the first chunk that is not ready.
  void sum_ready();

  CommThreads& threads_;
  at::Tensor gradient_;
  std::shared_ptr<const std::vector<DividedRange>> chunks_;  // shared with the sums under way
  std::vector<int64_t> numels_;                              // elements of each chunk, without gaps
  bool gathers_;
  std::vector<int64_t> unready_;  // by chunk: elements that are not ready
  size_t next_ = 0;               // the first chunk whose sum has not begun
  bool has_begun_ = false;
};

// Returns the reducer of a run for the flat fp32 `gradient` of `model`. With divided weights it
// also makes the model read its weights from their owners. All references but `config` must outlive
// the reducer. Every process makes the call at the same point, after require_preflight()
// (training/preflight.h) of kDevice.
std::unique_ptr<GradientReducer> make_gradient_reducer(Processes& processes,
                                                       const ParallelConfig& config,
                                                       OptimizerShards& shards, Llama& model,
                                                       const at::Tensor& gradient);

}  // namespace lmtrain
