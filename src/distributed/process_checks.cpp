#include "distributed/process_checks.h"

#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "device/device.h"
#include "optim/optimizer.h"

namespace lmtrain {
namespace {

[[noreturn]] void refuse_weights(const std::string& what) {
  throw Error(ErrorKind::kConfig, str("parallel.shard is \"parameters\", and ", what,
                                      "; or set parallel.shard to \"optimizer\""));
}

}  // namespace

void check_processes(const ParallelConfig& config, int num_processes) {
  if (num_processes == 1 || config.sum != ParallelSum::kExact) return;
  if (std::has_single_bit(static_cast<unsigned>(num_processes)) && num_processes <= config.parts)
    return;
  throw Error(ErrorKind::kConfig, str("parallel.sum is \"exact\", and there are ", num_processes,
                                      " processes; allowed: a power of two, up to parallel.parts (",
                                      config.parts, "); or set parallel.sum to \"fast\""));
}

void check_division(const Config& config, int num_processes) {
  if (num_processes == 1 || config.parallel.shard != ParallelShard::kParameters) return;
  if (!device_of(config).is_cpu())
    refuse_weights("weights are divided on CPUs alone so far; set device to \"cpu\"");
  if (!config.model.activation_checkpointing) {
    refuse_weights(
        "the backward computes each layer again, once its weights are gathered; set "
        "model.activation_checkpointing to true");
  }
  if (config.log.samples)
    refuse_weights("samples are written by a process that has all weights; leave log.samples out");
  if (config.eval.tasks)
    refuse_weights("tasks are asked of a process that has all weights; leave eval.tasks out");
}

}  // namespace lmtrain
