// Divides the optimizer over the processes of a run (`parallel.shard` "optimizer"; ZeRO stage 1,
// Rajbhandari et al. 2020, 1910.02054). Each process updates whole tensors, some of every chunk of
// the flat layout (distributed/ownership.h), and keeps the optimizer's state of these alone. For the
// update it needs the gradient of its tensors; afterwards working weights are gathered.
//
// With "parameters" each process keeps the weights and the gradient of its tensors alone, too
// (distributed/sharded_weights.h), and the norms.
//
// With `parallel.shard` "none", and with one process, nothing is divided: each process updates all
// tensors. Every process makes the same calls in the same order.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "device/host_copier.h"
#include "model/parameters.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "distributed/processes.h"
#include "distributed/checkpoint_writers.h"
#include "distributed/work_line.h"

namespace lmtrain {

class OptimizerShards {
 public:
  // `config` is resolved. Weights are gathered over `lines`, which must live as long.
  OptimizerShards(Processes& processes, const Config& config, ExchangeLines& lines);

  bool is_divided() const { return !chunks_.empty(); }
  // Returns whether each process has the weights and the gradient of its tensors alone.
  bool divides_weights() const { return divides_weights_; }
  // Returns the chunks of the layout, in the order in which a backward finishes them, and which
  // part of each belongs to which process; none where nothing is divided.
  const std::vector<DividedRange>& chunks() const { return chunks_; }
  // Returns this range of elements, which must lie in one chunk, divided as that is.
  DividedRange divided(const ElementRange& elements) const;
  // Returns the elements of the norms, which each process has.
  ElementRange norms() const;
  // Returns the elements of the gradient that this process holds, where weights are divided.
  std::optional<std::vector<ElementRange>> held_gradient() const;
  // Returns a filter for the tensors that this process updates. It may outlive this object.
  ParameterFilter owned() const;

  // Returns the L2 norm of the whole gradient, of which each process has its own tensors; the same
  // in each, and on CPUs to the bit that of lmtrain::gradient_norm().
  double gradient_norm(const at::Tensor& grad) const;
  // Each process gives the name of a tensor, or an empty text. Returns, in each, the name that
  // comes first in the layout; empty where all are. Where nothing is divided, returns `name`.
  std::string first_of_all(const std::string& name) const;
  // Returns the text of the first process in every process; where nothing is divided, `text`.
  std::string as_the_first_says(const std::string& text) const;

  // Where weights are divided, gather_working() and gather_masters() copy the norms alone.
  //
  // Copies the working weights of each tensor to all processes, after the update.
  void gather_working(Parameters& parameters);
  // Copies the masters of each tensor to all processes, where they have changed since they were
  // gathered. In fp32 they are the working weights, and gathered already.
  void gather_masters(Parameters& parameters);
  // Says that gather_masters() has nothing to do until the next gather_working().
  void note_masters_alike() { masters_are_stale_ = false; }
  // Rounds the masters of this process's tensors into its working weights, and copies the norms to
  // all processes, after the masters were set; only where weights are divided.
  void spread_masters(Parameters& parameters);
  // Gives each process the masters of its tensors that rank 0 has, which lets the others' go; only
  // where weights are divided.
  void hand_out_masters(Parameters& parameters) const;
  // Returns the masters that this process writes into a checkpoint, in host memory and in the order
  // of the layout: its own, and in rank 0 those of the ranks that do not write. With
  // checkpoint.async they are copies. Without, tensors of a CPU are returned themselves, here and
  // in collect(): CheckpointSaver then writes them before save() returns, and nothing may change
  // them earlier.
  std::vector<MasterRange> collect_masters(const Parameters& parameters,
                                           const CheckpointWriters& writers);

  // Gives each process its buffers. Rank 0 alone calls read(buffer), for each buffer of an
  // optimizer of all tensors, in its order; of `buffer` name and shape are set. It returns the
  // values, fp32 in host memory.
  void restore(const Optimizer& optimizer,
               const std::function<at::Tensor(const OptimizerBuffer& buffer)>& read) const;
  // Returns the buffers that this process writes, in host memory and in the order of an optimizer
  // of all tensors.
  std::vector<OptimizerBuffer> collect(const Optimizer& optimizer,
                                       const CheckpointWriters& writers);
  // Returns the buffers of an optimizer of all tensors, on the device "meta", where the optimizer
  // is divided.
  const std::vector<OptimizerBuffer>& all_buffers() const { return all_buffers_; }

 private:
  // Returns a copy in host memory, or the tensor itself where collect_masters() says so.
  at::Tensor in_host_memory(const at::Tensor& values);
  int owner_of(int64_t element) const;
  int owner_of_buffer(const std::string& buffer) const;
  // Returns this process's elements of each chunk of which it has some.
  std::vector<ElementRange> mine() const;
  void gather(const at::Tensor& flat);
  // Calls f(buffer, its owner, its values if it is this process's) for each buffer of an optimizer
  // of all tensors.
  void for_each_buffer(const Optimizer& optimizer,
                       const std::function<void(const OptimizerBuffer& buffer, int owner,
                                                const at::Tensor& mine)>& f) const;

  Processes& processes_;
  ExchangeLines& lines_;
  ParameterLayout layout_;
  std::vector<DividedRange> chunks_;          // none where nothing is divided
  std::vector<OptimizerBuffer> all_buffers_;  // on the device "meta"; none where nothing is divided
  std::vector<DividedRange> gathered_;        // the weights that all processes have
  std::vector<std::vector<NormBlock>> norm_blocks_;  // by rank: of its tensors
  std::vector<int> block_owners_;                    // of all blocks, in the order of the norm
  bool copies_;
  HostCopier host_copier_;  // its buffers serve the copies of all checkpoints
  bool divides_weights_ = false;
  bool masters_are_stale_ = false;
};

}  // namespace lmtrain
