#include "tools/export_model.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/files/file.h"
#include "base/files/read_file.h"
#include "base/files/unpublished.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "config/init_from.h"
#include "device/torch_headers.h"
#include "formats/strict_json.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "model/torchscript.h"
#include "model/write_weights.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// What a model's folder may hold beside config and weights, as transformers names it.
constexpr std::array<const char*, 10> kFilesBeside = {
    "generation_config.json",  "tokenizer.model",   "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.json",     "merges.txt",
    "chat_template.jinja",     "chat_template.json"};

const char* torch_dtype(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    default:
      return "float32";
  }
}

// config.json of the model with another dtype: version 4 of transformers reads torch_dtype, version
// 5 dtype.
std::string config_text(const fs::path& file, DType dtype) {
  nlohmann::json config = parse_strict_json(
      read_file(file), {ErrorKind::kConfig, file.string(), "copy or download the folder again"});
  config["dtype"] = config["torch_dtype"] = torch_dtype(dtype);
  return config.dump(2) + "\n";
}

void write_text(const fs::path& file, std::string_view text) {
  FileWriter writer(file);
  writer.write(text);
  writer.finish();
}

void copy_synced(const fs::path& from, const fs::path& to) {
  FileWriter writer(to);
  read_pieces(from, [&](std::string_view piece) { writer.write(piece); });
  writer.finish();
}

struct Model {
  ModelConfig config;
  Parameters parameters;
};

Model load_model(const ModelLocation& location, DType dtype, const fs::path& folder) {
  const ModelConfig config = located_model_config(location);
  ParameterLayout layout(config, config.vocab_size.value_or(kLlamaDefaultVocabSize));
  require_free_space(folder, weight_bytes(layout, dtype), "an export");
  Model model{config, Parameters(std::move(layout), at::kFloat, at::kCPU)};
  load_weights(TensorFiles(location.folder), model.parameters);
  return model;
}

}  // namespace

ModelExport export_hf(const ModelLocation& location, const fs::path& to, DType dtype,
                      uint64_t shard_bytes) {
  Unpublished folder(to);
  const Model model = load_model(location, dtype, folder.path().parent_path());
  lmtrain::create_directories(folder.path());
  write_text(folder.path() / "config.json", config_text(location.folder / "config.json", dtype));
  for (const char* name : kFilesBeside) {
    if (is_file(location.folder / name)) copy_synced(location.folder / name, folder.path() / name);
  }
  if (!tokenizer_in(location.folder)) {
    log_note(str(location.folder.string(), " has no tokenizer.model and no tokenizer.json; ",
                 to.string(), " has no tokenizer either"));
  }
  const WeightsWritten written =
      write_weights(folder.path(), model.parameters, dtype, shard_bytes, throw_if_stopped);
  throw_if_stopped();
  folder.publish();
  return {model.parameters.layout().num_parameters(), written.files, written.bytes};
}

ModelExport export_torchscript(const ModelLocation& location, const fs::path& to, DType dtype) {
  Unpublished file(to);
  const Model model = load_model(location, dtype, file.path().parent_path());
  write_torchscript(file.path(), model.config, model.parameters, located_max_length(location),
                    dtype);
  throw_if_stopped();
  file.publish();
  const ParameterLayout& layout = model.parameters.layout();
  return {layout.num_parameters(), 1, weight_bytes(layout, dtype)};
}

}  // namespace lmtrain
