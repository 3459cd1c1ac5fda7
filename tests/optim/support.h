// A small Llama's parameters for tests of update rules.
#pragma once

#include <gtest/gtest.h>

#include "base/text.h"
#include "optim/optimizer.h"
#include "support/tensors.h"

namespace lmtrain::testing {

inline ModelConfig small_model() {
  ModelConfig model;
  model.hidden_size = 16;
  model.intermediate_size = 23;
  model.num_hidden_layers = 2;
  return model;
}

inline Parameters small_parameters(at::ScalarType dtype = at::kFloat, int64_t vocab_size = 37) {
  Parameters parameters(ParameterLayout(small_model(), vocab_size), dtype, at::kCPU);
  parameters.initialize(1, 0.5);
  return parameters;
}

// "normuon" is muon with NorMuon and Polar Express.
inline OptimizerConfig config_of(const std::string& type) {
  OptimizerConfig config;
  if (type == "normuon") {
    config = config_of("muon");
    config.normuon = true;
    config.ns_coefficients = NsCoefficients::kPolarExpress;
    config.ns_steps = 4;
    return config;
  }
  config.type = value_named<OptimizerType>(type).value();
  if (type == "ademamix") config.betas = {0.9, 0.999, 0.9999};
  return config;
}

// The buffers called "<name>.<HF name>", in the layout of the parameters.
inline at::Tensor flat_moment(const Optimizer& optimizer, const ParameterLayout& layout,
                              const std::string& name) {
  at::Tensor flat;
  for (const ParameterSpec& spec : layout.parameters()) {
    for (const OptimizerBuffer& buffer : optimizer.buffers()) {
      if (buffer.name != str(name, ".", spec.name)) continue;
      EXPECT_EQ(buffer.values.sizes(), at::IntArrayRef(spec.shape)) << buffer.name;
      if (!flat.defined()) flat = at::zeros({layout.flat_size()}, buffer.values.options());
      flat.narrow(0, spec.offset, spec.numel()).copy_(buffer.values.reshape(-1));
    }
  }
  EXPECT_TRUE(flat.defined()) << name;
  return flat;
}

}  // namespace lmtrain::testing
