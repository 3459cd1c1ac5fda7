// The settings of a run of several processes.
#include "config/settings.h"

namespace lmtrain {

void add_parallel_settings(SettingTable& t, ParallelConfig& c) {
  t.section("parallel", "Several processes that train one model together (docs/distributed.md).");
  t.add("parallel.sum", &c.sum,
        "How gradients are summed. fast: in the order that takes the least time; exact: in one "
        "order, whatever the number of processes, so that 1, 2, 4 ... up to parallel.parts of them "
        "compute the same bits.");
  t.add("parallel.parts", &c.parts,
        "Micro-batches a step, whose gradients are summed as a binary tree; a power of two.")
      .range(1, 1 << 16)
      .used_if("parallel.sum", {ParallelSum::kExact});
  t.add(
      "parallel.shard", &c.shard,
      "What is divided among several processes, so that each holds only its part. none: nothing; "
      "optimizer: the "
      "optimizer's state, whose tensors it updates for all; parameters: weights and gradient too, "
      "which are gathered layer by layer (on CPUs).");
  t.add("parallel.timeout", &c.timeout,
        "A process that has ended, hangs or cannot be reached ends all others within this time.")
      .as(SettingKind::kDuration)
      .range(1, 86400 * 365);
  t.add(
      "parallel.nccl", &c.nccl,
      "Whether GPUs exchange by NCCL, where all processes have it. false, in one process: through "
      "host memory and Gloo, which is slower.");
}

}  // namespace lmtrain
