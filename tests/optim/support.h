// A small Llama's parameters for tests of update rules.
#pragma once

#include <gtest/gtest.h>

#include "base/text.h"
#include "config/settings.h"
#include "optim/make_optimizer.h"
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
  const OptimizerDefaults defaults = optimizer_defaults(config.type);
  config.betas = defaults.betas;
  config.eps = defaults.eps;
  config.momentum = defaults.momentum;
  return config;
}

// A buffer of each tensor that the rule has.
inline std::string first_moment_of(const std::string& type) {
  if (type.ends_with("muon") || type == "sgd") return "momentum_buffer";
  return type == "rmsprop" ? "exp_avg_sq" : "exp_avg";
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
