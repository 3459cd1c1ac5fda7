// From a config with `auto` in it to one that says what will happen on this machine. The run's own
// config.json is the resolved one, so a resumed run computes with the same threads, precision and
// micro-batch.
#pragma once

#include <ATen/core/Tensor.h>

#include "batching/batch_order.h"
#include "config/config.h"
#include "corpus/tokenizer/tokenizer.h"
#include "device/device.h"
#include "model/parameters.h"
#include "processes/processes.h"
#include "schedule/run_clock.h"

namespace lmtrain {

// OMP_NUM_THREADS, else the processors this process may use, divided by the number of processes
// that share them.
int default_threads(int sharers = 1);

// threads, device, precision, compile and batch.micro_tokens made concrete. Sets up libtorch's
// threads. Call once. Each of several processes of a machine takes the GPU of its local rank.
void resolve_runtime(Config& config, const Processes& processes = only_process());

// model.vocab_size made concrete: the tokenizer's unless given. Error(kConfig) when the one given
// is too small.
void resolve_vocab_size(Config& config, const Tokenizer& tokenizer);

at::Device device_of(const Config& config);    // of a resolved config
Precision precision_of(const Config& config);  // of a resolved config

// How long the run is to be, as its order of data is planned by it.
RunLength run_length(const TrainConfig& train);
// The clock of the run at its beginning. It counts steps where `train.steps` is given, else
// targets; a step is batch.tokens positions, an epoch the targets that `order` was given.
RunClock run_clock(const Config& config, const BatchOrder& order);

}  // namespace lmtrain
