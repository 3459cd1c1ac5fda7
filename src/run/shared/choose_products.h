// Chooses the algorithms of products of matrices (`products` of the config) before the first step,
// the same in every process, and keeps them with the state of training
// (docs/decisions/algorithms-of-products-are-chosen-once.md). Every process calls each of these
// functions at the same point. `config` is resolved.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "batching/micro_batch.h"
#include "config/config.h"
#include "model/llama.h"
#include "processes/processes.h"
#include "products/product_choices.h"

namespace lmtrain {

// Makes products take the algorithms of a state. Where the config wants none, or they do not hold
// here any more, `choices` is emptied and products are as if nothing had been chosen. Returns why
// they do not hold: another library, device or batch.micro_tokens, or an algorithm that does not
// serve the device of some process. Empty where they hold, or are not wanted.
std::string take_up_products(const Config& config, std::optional<ProductChoices>& choices,
                             Processes& processes);

// Where `choices` is empty and the config wants some: computes a micro-batch of every shape that
// steps have, measures the products in it in the first process, and makes all products take the
// fastest algorithms. A product that cannot be measured, or whose algorithm does not serve every
// process, is computed as if nothing had been chosen. Writes a note of what was gained. `lengths`
// are not empty, and `limits` are final: micro-batches of them fit into memory. `grad` is
// overwritten.
void choose_products_once(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                          const at::Tensor& grad, const MicroBatchLimits& limits,
                          std::optional<ProductChoices>& choices, Processes& processes);

}  // namespace lmtrain
