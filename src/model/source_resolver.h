// Resolves the names that the Llama's source (model/llama_source.h) does not define: `names`, and
// the configuration as `constants`. A name that it does not know resolves to null.
#pragma once

#include <torch/csrc/jit/frontend/resolver.h>

#include <map>
#include <memory>
#include <string>

#include "config/config.h"

namespace lmtrain {

using SourceNames = std::map<std::string, std::shared_ptr<torch::jit::SugaredValue>>;
using SourceConstants = std::map<std::string, c10::IValue>;

class SourceResolver : public torch::jit::Resolver {
 public:
  SourceResolver(SourceNames names, SourceConstants constants)
      : names_(std::move(names)), constants_(std::move(constants)) {}

  std::shared_ptr<torch::jit::SugaredValue> resolveValue(
      const std::string& name, torch::jit::GraphFunction& method,
      const torch::jit::SourceRange& range) override {
    if (const auto value = names_.find(name); value != names_.end()) return value->second;
    if (const auto constant = constants_.find(name); constant != constants_.end()) {
      return std::make_shared<torch::jit::SimpleValue>(
          method.graph()->insertConstant(constant->second, range));
    }
    return nullptr;
  }

 private:
  SourceNames names_;
  SourceConstants constants_;
};

// Returns the constants that the Llama's source takes from its configuration.
inline SourceConstants llama_constants(const ModelConfig& model) {
  return {{"num_attention_heads", model.num_attention_heads},
          {"num_key_value_heads", model.num_key_value_heads},
          {"num_hidden_layers", model.num_hidden_layers},
          {"has_qk_norm", model.has_qk_norm()},
          {"has_qkv_bias", model.has_qkv_bias()},
          {"rms_norm_eps", model.rms_norm_eps},
          {"dropout", model.dropout}};
}

}  // namespace lmtrain
