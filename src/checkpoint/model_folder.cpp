#include "checkpoint/model_folder.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "config/init_from.h"
#include "config/parse.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Files that a model's folder may hold beside config and weights, as transformers names them.
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

// Returns config.json of the model with another dtype, in the forms of both versions of
// transformers: version 4 reads torch_dtype, rope_theta and rope_scaling, version 5 dtype and
// rope_parameters.
std::string config_text(const ModelLocation& location, DType dtype) {
  const fs::path file = location.folder / "config.json";
  nlohmann::json config = parse_strict_json(
      read_file(file), {ErrorKind::kConfig, file.string(), "copy or download the folder again"});
  config["dtype"] = config["torch_dtype"] = torch_dtype(dtype);
  config.update(nlohmann::json(hf_rope_json(located_model_config(location))));
  return config.dump(2) + "\n";
}

}  // namespace

ParameterLayout located_layout(const ModelLocation& location) {
  const ModelConfig config = located_model_config(location);
  return {config, config.vocab_size.value_or(kLlamaDefaultVocabSize)};
}

void write_files_beside_weights(const ModelLocation& location, const fs::path& folder,
                                DType dtype) {
  write_file_synced(folder / "config.json", config_text(location, dtype));
  for (const char* name : kFilesBeside) {
    if (is_file(location.folder / name)) copy_file_synced(location.folder / name, folder / name);
  }
}

void note_missing_tokenizer(const ModelLocation& location, const fs::path& to) {
  if (tokenizer_in(location.folder)) return;
  log_note(str(location.folder.string(), " has no tokenizer.model and no tokenizer.json; ",
               to.string(), " has no tokenizer either"));
}

}  // namespace lmtrain
