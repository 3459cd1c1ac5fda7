// Cuts the matrices of a model into modules: the embedding, each layer, an untied head. With
// divided weights a process gathers one module at a time, as PyTorch's FSDP does. Norms and biases,
// which are small, belong to no module and are always there.
#pragma once

#include <cstdint>
#include <vector>

#include "device/slotted_memory.h"
#include "model/parameters.h"

namespace lmtrain {

// Returns the range of each module in the flat layout: 0 is the embedding, 1 + l is layer l, and
// the last an untied head. The ranges cover [0, decayed_size) of the layout.
std::vector<ElementRange> module_ranges(const ParameterLayout& layout);

// Returns the slots of flat tensors whose modules share memory, of a process that keeps `kept` and
// the norms. Modules have different slots if a step or an evaluation gathers one while it uses the
// other, or computes the gradient of one while it sums the other's.
Slots module_slots(const ParameterLayout& layout, std::vector<ElementRange> kept);

// Returns chunks that cover the layout, in the order in which a backward finishes their gradients:
// an untied head, the layers from the last to the first, the embedding, norms and biases. A chunk
// of layers has at least `least_layers` layers and 1 MiB of fp32, so that its exchange is worth its
// messages; the first layers may have less.
std::vector<ElementRange> backward_chunks(const ParameterLayout& layout, int64_t least_layers);

// ModuleWeights gathers the working weights of modules into the flat buffer that the model reads.
// All processes make the same calls in the same order, and each call may throw the errors of
// Processes. `module` is an index into module_ranges().
class ModuleWeights {
 public:
  ModuleWeights(const ModuleWeights&) = delete;
  ModuleWeights& operator=(const ModuleWeights&) = delete;
  virtual ~ModuleWeights() = default;

  // Begins to gather a module.
  virtual void start(size_t module) = 0;
  // Waits for the module that was started first and not awaited yet.
  virtual void await() = 0;
  // Releases a module. The model must not read it until it is started again.
  virtual void release(size_t module) = 0;

 protected:
  ModuleWeights() = default;
};

}  // namespace lmtrain
