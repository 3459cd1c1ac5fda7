// Turns a config with `auto` in it into one that says what will happen on this machine: a resolved
// config. The run's own config.json is the resolved one, so a resumed run computes with the same
// threads, precision and micro-batch.
#pragma once

#include <ATen/core/Tensor.h>

#include "batching/batch_order.h"
#include "config/config.h"
#include "device/device.h"
#include "distributed/processes.h"
#include "schedule/run_clock.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// Makes threads, device, precision and compile concrete, on a CPU also batch.micro_tokens, and sets
// up libtorch's threads and determinism. Call once, before the first operator. Each of several
// processes of a machine takes the GPU of its local rank, modulo the number of GPUs that it sees.
// Warns where `compile: graph` is not possible here and becomes "script", and where fp16 is to run
// on a CPU. Throws the errors of resolve_device, resolve_precision and configure_runtime
// (device/device.h).
void resolve_runtime(Config& config, const Processes& processes = only_process());

// Makes model.vocab_size concrete: the tokenizer's unless given. Throws Error(kConfig) when the one
// given is too small.
void resolve_vocab_size(Config& config, const Tokenizer& tokenizer);

// Returns how many processes of this machine use the memory of this process's device: all of it on
// a CPU, those that compute on the same GPU on a GPU.
int sharers_of_memory(const at::Device& device, const Processes& processes);

// The positions of a micro-batch of a GPU. More than kFull give it no more to do at once: they save
// launches and sums of gradients, which is less than SwiGLU's value saves (docs/gpu.md). kUsual are
// for a GPU whose memory is not known, kMost are the most in any case.
inline constexpr int64_t kFullGpuMicroTokens = 16384;
inline constexpr int64_t kUsualGpuMicroTokens = 32768;
inline constexpr int64_t kMostGpuMicroTokens = 65536;
// Returns the positions of a micro-batch of a GPU with so many bytes available, before anything of
// the run is allocated: the most, from one row of sequence.max_length up to kMostGpuMicroTokens,
// that such rows fill, that divide the batch, and whose memory plan (training/memory_plan.h) fits
// into kUsableOnGpu of the memory, with kAllowance and with SwiGLU's value. With `compile: graph`
// activations count twice, for the graphs' pool and for a step outside the graphs. Where these
// would be fewer than kFullGpuMicroTokens, they are counted without that value. Where `available`
// is not known, kUsualGpuMicroTokens decide. batch.micro_tokens is not read; all else of `config`
// is resolved.
int64_t gpu_micro_tokens(const Config& config, std::optional<uint64_t> available,
                         int num_processes);
// Makes batch.micro_tokens concrete where it is open: on a CPU as resolve_runtime does; on a GPU,
// whose memory must hold nothing of the run yet, as gpu_micro_tokens says, for this process's part
// of the memory. Call it after resolve_vocab_size. What is given stays, so a resumed run has the
// micro-batch that it began with, whatever memory is available.
void resolve_micro_tokens(Config& config, int num_processes,
                          const Processes& processes = only_process());

// Returns the length of the run, by which its order of data is planned: train.steps, train.epochs
// or train.tokens.
RunLength run_length(const TrainConfig& train);
// Returns the clock of the run at its beginning. It counts steps where `train.steps` is given, else
// targets. A step is taken as batch.tokens positions, an epoch as the targets that `order` was
// given.
RunClock run_clock(const Config& config, const BatchOrder& order);

}  // namespace lmtrain
