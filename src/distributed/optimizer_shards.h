// Divides the optimizer over the processes of a run (`parallel.shard` "optimizer"; ZeRO stage 1,
// Rajbhandari et al. 2020, 1910.02054). Each process owns whole tensors, some in every chunk of the
// flat layout (distributed/ownership.h). It updates only its own tensors, and keeps only their
// optimizer state. After an update all processes gather the working weights.
//
// With `parallel.shard` "parameters" each process also keeps only the weights and the gradient of
// its own tensors (distributed/sharded_weights.h). All processes keep the norms.
//
// With "none", and with one process, nothing is divided: each process updates all tensors. Every
// process must make the same calls in the same order. They throw the errors of Processes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "device/host_copier.h"
#include "distributed/checkpoint_writers.h"
#include "distributed/comm_thread.h"
#include "distributed/processes.h"
#include "model/parameters.h"
#include "optim/clip.h"
#include "optim/optimizer.h"

namespace lmtrain {

class OptimizerShards {
 public:
  // `config` is resolved. `threads` gather the weights; by default comm_threads() makes them.
  OptimizerShards(Processes& processes, const Config& config);
  OptimizerShards(Processes& processes, const Config& config, CommThreads threads);

  bool is_divided() const { return !chunks_.empty(); }
  // Returns whether each process keeps the weights and the gradient of only its own tensors.
  bool divides_weights() const { return divides_weights_; }
  // Returns the chunks of the layout and, in each chunk, the range of every process. The order is
  // that in which a backward pass finishes chunks. Empty when nothing is divided.
  const std::vector<DividedRange>& chunks() const { return chunks_; }
  // Returns the threads of this process that exchange gradients and weights with the others.
  CommThreads& threads() { return threads_; }
  // Returns `elements`, divided where its chunk is divided. Throws Error(kInternal) unless
  // `elements` lie in one chunk.
  DividedRange divided(const ElementRange& elements) const;
  // Returns the elements of the norms, which every process keeps.
  ElementRange norms() const;
  // Returns the elements of the gradient that this process keeps; nothing if it keeps all.
  std::optional<std::vector<ElementRange>> held_gradient() const;
  // Returns a filter for the tensors that this process updates. It may outlive this object.
  ParameterFilter owned() const;

  // Returns the L2 norm of the whole gradient, the same in every process. Reads only this process's
  // own tensors in `grad`, which is flat fp32. On CPUs the bits equal lmtrain::gradient_norm().
  double gradient_norm(const at::Tensor& grad) const;
  // Each process passes the name of a tensor, or an empty text. Returns, in every process, the name
  // that comes first in the layout; empty if all are empty. If nothing is divided, returns `name`.
  std::string first_of_all(const std::string& name) const;
  // Returns rank 0's `text` in every process. If nothing is divided, returns `text` itself.
  std::string broadcast_text(const std::string& text) const;

  // With divided weights, gather_working() and gather_masters() copy only the norms.
  //
  // Copies the working weights of each tensor from its owner to all processes, after the update.
  void gather_working(Parameters& parameters);
  // Copies the masters of each tensor from its owner to all processes, if an update changed them
  // since the last call. In fp32 masters and working weights are the same tensor, so it does
  // nothing.
  void gather_masters(Parameters& parameters);
  // Call it after all processes were given the same masters: gather_masters() then copies nothing.
  void note_masters_alike() { masters_are_stale_ = false; }
  // Call it only with divided weights, after the masters were set. Rounds the masters of this
  // process's tensors into its working weights, and copies the norms to all processes.
  void spread_masters(Parameters& parameters);
  // Call it only with divided weights. Rank 0 passes each process the masters of its tensors from
  // `all`, a flat releasable tensor of fp32 in host memory, and releases its memory meanwhile;
  // other processes pass an undefined tensor.
  void hand_out_masters(const at::Tensor& all, Parameters& parameters) const;
  // Returns the masters that this process writes into a checkpoint, in host memory and in the order
  // of the layout: a writer's own tensors and, in rank 0, also the tensors of the ranks that do not
  // write. If nothing is divided, rank 0 returns all.
  //
  // With checkpoint.async, collect_masters() and collect() return copies. Otherwise they may return
  // the run's own CPU tensors, which must not change until CheckpointSaver::save() has written
  // them.
  std::vector<MasterRange> collect_masters(const Parameters& parameters,
                                           const CheckpointWriters& writers);

  // Sets the optimizer's buffers in each process to stored values. Rank 0 alone calls read(buffer),
  // once for each buffer of all_buffers(), in that order. read() finds the values by the name and
  // shape of `buffer`, and returns them as fp32 in host memory.
  void load(const Optimizer& optimizer,
            const std::function<at::Tensor(const OptimizerBuffer& buffer)>& read) const;
  // Returns the buffers that this process writes into a checkpoint, in host memory, in the order of
  // all_buffers().
  std::vector<OptimizerBuffer> collect(const Optimizer& optimizer,
                                       const CheckpointWriters& writers);
  // Returns the buffers of an optimizer that updates all tensors, on the device "meta": names and
  // shapes without values. Empty if nothing is divided: the optimizer's own buffers are all then.
  const std::vector<OptimizerBuffer>& all_buffers() const { return all_buffers_; }

 private:
  // Returns a copy in host memory; without checkpoint.async, a CPU tensor itself.
  at::Tensor in_host_memory(const at::Tensor& values);
  int owner_of(int64_t element) const;
  int owner_of_buffer(const std::string& buffer) const;
  // Returns the ranges that this process owns, at most one a chunk.
  std::vector<ElementRange> mine() const;
  void gather(const at::Tensor& flat);
  // Calls f(buffer, owner, mine) for each buffer of an optimizer that updates all tensors. `mine`
  // are the buffer's values, undefined if another process owns it.
  void for_each_buffer(const Optimizer& optimizer,
                       const std::function<void(const OptimizerBuffer& buffer, int owner,
                                                const at::Tensor& mine)>& f) const;

  Processes& processes_;
  CommThreads threads_;
  ParameterLayout layout_;
  std::vector<DividedRange> chunks_;          // empty when nothing is divided
  std::vector<OptimizerBuffer> all_buffers_;  // on the device "meta"; empty if nothing is divided
  std::vector<DividedRange> gathered_;        // the weights that all processes have
  std::vector<std::vector<ElementRange>> norm_blocks_;  // by rank: the blocks of its tensors
  std::vector<int> block_owners_;  // the rank of each block, in norm_blocks order
  bool copies_;
  HostCopier host_copier_;  // its buffers serve the copies of all checkpoints
  bool divides_weights_ = false;
  bool masters_are_stale_ = false;
};

}  // namespace lmtrain
