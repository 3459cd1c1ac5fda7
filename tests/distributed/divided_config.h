// A run whose optimizer is divided over several processes, for the tests of what they exchange.
#pragma once

#include "config/config.h"
#include "distributed/optimizer_shards.h"
#include "model/parameters.h"
#include "training/tiny_model.h"

namespace lmtrain::testing {

// The norm of the model's gradient has some blocks, of which no range's end is one.
inline Config divided_config() {
  Config config;
  config.model = tiny_model_config();
  config.model.hidden_size = 64;
  config.model.intermediate_size = 600;
  config.model.vocab_size = 1003;
  config.parallel.shard = ParallelShard::kOptimizer;
  return config;
}

inline ParameterLayout layout_of(const Config& config) {
  return ParameterLayout(config.model, *config.model.vocab_size);
}

// Copies the elements that a process owns.
inline void copy_own(const OptimizerShards& shards, size_t rank, const at::Tensor& from,
                     const at::Tensor& to) {
  for (const DividedRange& chunk : shards.chunks())
    chunk.ranges[rank].of(to).copy_(chunk.ranges[rank].of(from));
}

}  // namespace lmtrain::testing
