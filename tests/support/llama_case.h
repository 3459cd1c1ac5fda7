// Models of tests/reference (its README.md says what each file holds) and our Llama over them.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/parse.h"
#include "formats/safetensors.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "model/llama.h"
#include "support/source_dir.h"
#include "support/tensors.h"

namespace lmtrain::testing {

inline std::filesystem::path reference_folder(const std::string& name) {
  return source_dir() / "tests/reference" / name;
}

inline const std::vector<std::string>& llama_cases() {
  static const std::vector<std::string> names = {
      "mha_tied", "mha_untied",  "gqa_untied", "mqa_tied",       "rope_llama3", "odd_vocab",
      "head_dim", "rms_eps",     "qwen3_tied", "qwen3_untied",   "qwen2_tied",  "qwen2_untied",
      "mistral",  "rope_linear", "rope_yarn",  "rope_yarn_qwen2"};
  return names;
}

inline std::string read_text(const std::filesystem::path& path) {
  return std::string(MappedFile(path).bytes());
}
inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_text(path));
}

// A copy of a stored tensor.
inline at::Tensor to_tensor(const TensorView& view) {
  at::ScalarType dtype = at::kFloat;
  switch (view.dtype) {
    case DType::kF32:
      break;
    case DType::kF64:
      dtype = at::kDouble;
      break;
    case DType::kI64:
      dtype = at::kLong;
      break;
    case DType::kBF16:
      dtype = at::kBFloat16;
      break;
    default:
      ADD_FAILURE() << "dtype " << dtype_name(view.dtype);
  }
  at::Tensor tensor = at::empty(view.shape, dtype);
  std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

// A model folder, its configuration, and weights loaded from it.
struct LoadedModel {
  explicit LoadedModel(const std::filesystem::path& where, at::ScalarType dtype = at::kFloat)
      : folder(where),
        config(parse_hf_model_config(read_text(folder / "config.json"),
                                     (folder / "config.json").string())),
        max_length(read_json(folder / "config.json").at("max_position_embeddings")),
        parameters(ParameterLayout(config, *config.vocab_size), dtype, at::kCPU) {
    load_weights(TensorFiles(folder), parameters);
  }

  Llama llama(CompileMode compile = CompileMode::kEager) {
    return Llama(config, parameters, max_length, compile);
  }
  at::Tensor new_gradient() const { return at::zeros({parameters.layout().flat_size()}); }

  // Sharing so little work among threads would only make them wait for each other.
  Threads one_thread{1};
  std::filesystem::path folder;
  ModelConfig config;
  int64_t max_length;
  Parameters parameters;
};

// A folder of tests/reference/llama with its golden values.
struct LlamaCase : LoadedModel {
  explicit LlamaCase(const std::string& name, at::ScalarType dtype = at::kFloat)
      : LoadedModel(reference_folder("llama/" + name), dtype),
        golden(read_json(folder / "golden.json")),
        tensors(folder / "golden.safetensors") {}

  at::Tensor tensor(const std::string& name) const { return to_tensor(tensors.at(name)); }
  // Of the mean over targets.
  double mean_scale() const { return 1.0 / golden.at("targets").get<double>(); }

  nlohmann::json golden;
  SafetensorsFile tensors;
};

// The range of a flat buffer that belongs to one HF tensor, in its shape.
inline at::Tensor part(const at::Tensor& flat, const ParameterSpec& spec) {
  return flat.narrow(0, spec.offset, spec.numel()).view(spec.shape);
}

}  // namespace lmtrain::testing
