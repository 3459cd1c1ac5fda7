// Resolves a config: replaces `auto` by values for this machine. A run's config.json is resolved,
// so a resumed run computes with the same threads, precision and micro-batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "batching/batch_order.h"
#include "config/config.h"
#include "device/device.h"
#include "distributed/processes.h"
#include "schedule/run_clock.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// Resolves threads, device, precision and compile, on a CPU also batch.micro_tokens, and sets up
// libtorch's threads and determinism. Call it before the first operator. Each of several processes
// takes the GPU of its local rank, modulo the number of GPUs that it sees. Warns if `compile:
// graph` is not possible here and becomes "script", and of fp16 on a CPU. Throws the errors of
// resolve_device, resolve_precision and configure_runtime (device/device.h).
void resolve_runtime(Config& config, const Processes& processes = only_process());

// Returns what `auto` is on this machine in each of `threads`, `device` and `precision` that has
// it:
// {"precision", "here bf16, as the processor has instructions for bf16 (avx512_bf16)"}. A device
// that cannot be used has no precision here. Loads the CUDA library if needed.
std::map<std::string, std::string> meanings_of_auto(const Config& config);

// Resolves model.vocab_size: the tokenizer's unless given. Throws Error(kConfig) if the given size
// is less than the tokenizer's.
void resolve_vocab_size(Config& config, const Tokenizer& tokenizer);

// Returns the bytes of the device's available memory that are this process's part; nothing if they
// are not known. The processes of a machine share equally: on a CPU all of the run, on a GPU those
// that use it.
std::optional<uint64_t> memory_share(const at::Device& device, const Processes& processes);

// Returns the most positions of a micro-batch that fit into a GPU with `available` bytes, before
// the run allocates anything. They are whole rows of sequence.max_length, at least one, divide the
// batch, and are at most 65,536. Their memory plan (training/memory_plan.h), with
// kAllowance and SwiGLU's value, fits into kUsableOnGpu of the memory. If that gives fewer than
// 16,384, counts again without SwiGLU's value. With `compile: graph` of_positions()
// count twice, for the graphs' pool and for a step outside the graphs. Without `available` the
// limit is 32,768. Does not read batch.micro_tokens; all else of `config` is
// resolved.
int64_t gpu_micro_tokens(const Config& config, std::optional<uint64_t> available,
                         int num_processes);
// Resolves batch.micro_tokens if it is open: on a CPU to whole rows of sequence.max_length, up to
// 8192 positions; on a GPU by gpu_micro_tokens(), for this process's part of the memory, which must
// hold nothing of the run yet. Call it after resolve_vocab_size. A given value stays, so a resumed
// run keeps its micro-batch, whatever memory is available.
void resolve_micro_tokens(Config& config, int num_processes,
                          const Processes& processes = only_process());

// Returns the length of the run that its order of data plans: train.steps, else train.epochs, else
// train.tokens. With `replans` it is the length after the first `replans` changes that
// train.replanned_at lists: 0 gives the length with which the run began.
RunLength run_length(const TrainConfig& train, std::optional<size_t> replans = {});
// Returns the clock of the run at its beginning. It counts steps if `train.steps` is given, else
// targets. For durations a step counts as batch.tokens targets, an epoch as order.targets_given().
// `pace` is the pace of the run's last replan, if any.
RunClock run_clock(const Config& config, const BatchOrder& order,
                   const std::optional<Pace>& pace = {});

}  // namespace lmtrain
