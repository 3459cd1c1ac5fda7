#include "checkpoint/export_model.h"

#include <functional>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/publish.h"
#include "base/stop.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/model_card.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/run_folder.h"
#include "config/init_from.h"
#include "device/torch_headers.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "model/round_weights.h"
#include "model/torchscript.h"
#include "model/write_weights.h"
#include "tokenizer/gguf_vocabulary.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// First checks that the disk of `folder` has room for the `bytes` of the weights.
Parameters load_parameters(const ModelLocation& location, ParameterLayout layout, uint64_t bytes,
                           const fs::path& folder) {
  require_free_space(folder, bytes, "an export");
  Parameters parameters(std::move(layout), at::kFloat, at::kCPU);
  load_weights(TensorFiles(location.folder), parameters);
  return parameters;
}

Parameters load_parameters(const ModelLocation& location, DType dtype, const fs::path& folder) {
  ParameterLayout layout = located_layout(location);
  const uint64_t bytes = weight_bytes(layout, dtype);
  return load_parameters(location, std::move(layout), bytes, folder);
}

std::string bytes_of(const at::Tensor& values) {
  return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
}

// Returns the bytes of a tensor of the file; `spec` is the HF tensor.
std::string gguf_bytes(const at::Tensor& master, const ModelConfig& model,
                       const ParameterSpec& spec, GgufType type) {
  at::Tensor values = master.narrow(0, spec.offset, spec.numel());
  std::vector<float> paired;
  if (const int64_t heads = paired_heads(model, spec.name); heads > 0) {
    const std::span<const float> rows(values.const_data_ptr<float>(),
                                      static_cast<size_t>(spec.numel()));
    paired = with_paired_rows(rows, heads, spec.shape.back());
    values = at::from_blob(paired.data(), {spec.numel()}, at::kFloat);
  }
  switch (type) {
    case GgufType::kF16:
      return bytes_of(rounded_weights(values, DType::kF16, spec.name));
    case GgufType::kBF16:
      return bytes_of(rounded_weights(values, DType::kBF16, spec.name));
    case GgufType::kQ80:
      return q8_0_bytes({values.const_data_ptr<float>(), static_cast<size_t>(spec.numel())},
                        spec.name);
    case GgufType::kF32:
      break;
  }
  return bytes_of(values);
}

Tokenizer located_tokenizer(const ModelLocation& location) {
  const auto path = tokenizer_in(location.folder);
  if (!path) {
    throw Error(ErrorKind::kUsage,
                str(location.folder.string(),
                    " has no tokenizer.model and no tokenizer.json, and a GGUF file holds the "
                    "tokenizer; put its files there"));
  }
  return Tokenizer::load(*path);
}

// The name of the run, or of the folder.
std::string gguf_name(const ModelLocation& location) {
  const std::string name =
      fs::canonical(location.run.value_or(location.folder)).filename().string();
  return is_utf8(name) && !name.empty() ? name : "model";
}

// Returns the tensors of the file: the factors of rotary positions, if there are any, then the
// tensors of the layout in its order.
std::vector<GgufTensor> gguf_tensors(const ParameterLayout& layout, size_t num_factors,
                                     GgufType type) {
  std::vector<GgufTensor> tensors;
  if (num_factors > 0)
    tensors.push_back({kGgufRopeFactors, GgufType::kF32, {static_cast<int64_t>(num_factors)}});
  for (const ParameterSpec& spec : layout.parameters())
    tensors.push_back({gguf_tensor_name(spec.name), gguf_type_of(spec.shape, type), spec.shape});
  return tensors;
}

void note_half_matrices(const std::vector<GgufTensor>& tensors, GgufType type) {
  std::vector<std::string> names;
  for (const GgufTensor& tensor : tensors) {
    if (type == GgufType::kQ80 && tensor.type == GgufType::kF16) names.push_back(tensor.name);
  }
  if (names.empty()) return;
  log_note(str(counted(static_cast<int64_t>(names.size()), "tensor"),
               " in fp16, since q8_0 needs rows of a multiple of ", kQ8Block,
               ", the first: ", names.front()));
}

}  // namespace

ModelExport export_hf(const ModelLocation& location, const fs::path& to, DType dtype,
                      uint64_t shard_bytes) {
  require_no_checkpoint_path(to);
  Unpublished folder(to, FileKind::kFolder);
  const Parameters parameters = load_parameters(location, dtype, folder.path().parent_path());
  lmtrain::create_directories(folder.path());
  write_files_beside_weights(location, folder.path(), dtype);
  write_model_card(location, folder.path());
  note_missing_tokenizer(location, to);
  const WeightsWritten written =
      write_weights(folder.path(), parameters, dtype, shard_bytes, throw_if_stopped);
  throw_if_stopped();
  folder.publish();
  return {parameters.layout().num_parameters(), written.files, written.bytes};
}

ModelExport export_torchscript(const ModelLocation& location, const fs::path& to, DType dtype) {
  require_no_checkpoint_path(to);
  Unpublished file(to, FileKind::kFile);
  const Parameters parameters = load_parameters(location, dtype, file.path().parent_path());
  write_torchscript(file.path(), located_model_config(location), parameters,
                    located_max_length(location), dtype);
  throw_if_stopped();
  file.publish();
  const ParameterLayout& layout = parameters.layout();
  return {layout.num_parameters(), 1, weight_bytes(layout, dtype)};
}

ModelExport export_gguf(const ModelLocation& location, const fs::path& to, GgufType type) {
  require_no_checkpoint_path(to);
  Unpublished file(to, FileKind::kFile);
  const ModelConfig model = located_model_config(location);
  ParameterLayout layout = located_layout(location);
  const int64_t vocab_size = model.vocab_size.value_or(kLlamaDefaultVocabSize);
  GgufMetadata metadata;
  add_gguf_model(model,
                 {gguf_name(location), type, layout.num_parameters(), vocab_size,
                  located_max_length(location), located_card(location)},
                 metadata);
  const Tokenizer tokenizer = located_tokenizer(location);
  const GgufVocabulary vocabulary =
      gguf_vocabulary(tokenizer, vocab_size, location.folder.string());
  add_gguf_vocabulary(vocabulary, tokenizer, metadata);
  const std::vector<float> factors = gguf_rope_factors(model);
  const std::vector<GgufTensor> tensors = gguf_tensors(layout, factors.size(), type);
  const uint64_t bytes = std::transform_reduce(tensors.begin(), tensors.end(), uint64_t{0},
                                               std::plus<>(), gguf_tensor_bytes);
  const Parameters parameters =
      load_parameters(location, std::move(layout), bytes, file.path().parent_path());
  note_half_matrices(tensors, type);
  for (const std::string& difference : vocabulary.differences) log_note(difference);

  const auto& specs = parameters.layout().parameters();
  const size_t num_extra = tensors.size() - specs.size();
  FileWriter writer(file.path());
  write_gguf(writer, metadata, tensors, [&](const GgufTensor& tensor) {
    throw_if_stopped();
    const auto index = static_cast<size_t>(&tensor - tensors.data());
    if (index < num_extra) {
      return std::string(reinterpret_cast<const char*>(factors.data()),
                         factors.size() * sizeof(float));
    }
    return gguf_bytes(parameters.master(), model, specs[index - num_extra], tensor.type);
  });
  writer.finish();
  throw_if_stopped();
  file.publish();
  return {parameters.layout().num_parameters(), 1, bytes};
}

}  // namespace lmtrain
