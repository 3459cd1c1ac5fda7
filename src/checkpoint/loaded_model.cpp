#include "checkpoint/loaded_model.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"
#include "checkpoint/given_model.h"
#include "checkpoint/run_config.h"
#include "config/digest.h"
#include "config/init_from.h"
#include "device/device.h"
#include "device/torch_headers.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

std::set<int32_t> stop_ids_in(const fs::path& folder) {
  // transformers takes the ids of config.json if generation_config.json has none.
  nlohmann::json ids;
  for (const char* file : {"generation_config.json", "config.json"}) {
    if (!ids.is_null() || !is_there(folder / file)) continue;
    const nlohmann::json settings = shallow_json(read_file(folder / file));
    if (settings.contains("eos_token_id")) ids = settings["eos_token_id"];
  }
  std::set<int32_t> stop_ids;
  for (const nlohmann::json& id : ids.is_array() ? ids : nlohmann::json::array({ids}))
    if (id.is_number_integer() && std::in_range<int32_t>(id.get<int64_t>()))
      stop_ids.insert(id.get<int32_t>());
  return stop_ids;
}

void require_whole_rows(const ModelConfig& model, int64_t max_length) {
  if (!model.sliding_window || *model.sliding_window >= max_length) return;
  throw Error(ErrorKind::kConfig,
              str("--max-length ", max_length, " is above the model's sliding_window ",
                  *model.sliding_window, ", and lmtrain computes attention over whole rows alone"));
}

}  // namespace

LoadedModel::LoadedModel(const ModelLocation& location, const LoadedModelOptions& options)
    : location_(location),
      num_threads_(default_threads()),
      tokenizer_path_(options.tokenizer_path) {
  configure_runtime(num_threads_);
  const at::Device device = resolve_device(options.device);
  if (tokenizer_path_.empty())
    tokenizer_path_ = tokenizer_in(location.folder).value_or(location.folder / "tokenizer.model");
  if (!is_there(tokenizer_path_)) {
    throw Error(ErrorKind::kUsage, str("there is no tokenizer at ", tokenizer_path_.string(),
                                       "; give a sentencepiece .model or a tokenizer.json with "
                                       "--tokenizer"));
  }
  tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::load(tokenizer_path_));
  const ModelConfig model = located_model_config(location);
  const int64_t vocab_size = model.vocab_size.value_or(kLlamaDefaultVocabSize);
  if (tokenizer_->vocab_size() > vocab_size) {
    throw Error(ErrorKind::kData, str(tokenizer_path_.string(), " has ", tokenizer_->vocab_size(),
                                      " pieces, the model in ", location.folder.string(), " only ",
                                      vocab_size, "; they do not belong together"));
  }
  require_whole_rows(model, options.max_length);
  if (!options.tokenizer_path.empty()) warn_of_other_tokenizer(location.folder);
  TokenizerConfig of_run;
  if (location.run) of_run = read_run_config(RunFolder(*location.run)).config.tokenizer;
  add_bos_ = of_run.add_bos.value_or(tokenizer_->adds_bos());
  add_eos_ = of_run.add_eos.value_or(tokenizer_->eos_id() >= 0);
  stop_ids_ = stop_ids_in(location.folder);
  stop_ids_.insert(tokenizer_->eos_id());
  parameters_ =
      std::make_unique<Parameters>(ParameterLayout(model, vocab_size),
                                   resolve_precision(options.precision, device).dtype, device);
  load_weights(TensorFiles(location.folder), *parameters_);
  const int64_t max_length =
      options.max_length > 0 ? options.max_length : located_max_length(location);
  model_ = std::make_unique<Llama>(model, *parameters_, max_length, CompileMode::kScript);
}

void LoadedModel::add_source(nlohmann::ordered_json& answer) const {
  answer["checkpoint"] = location_.folder.string();
  answer["step"] = nullptr;
  if (location_.step) answer["step"] = *location_.step;
}

std::string LoadedModel::precision() const {
  return precision_name({parameters_->working().scalar_type()});
}

void LoadedModel::warn_of_other_tokenizer(const std::filesystem::path& folder) const {
  const auto differs = difference_from_weights(*tokenizer_, folder);
  if (!differs || differs->what.empty()) return;
  log_warning(str(tokenizer_path_.string(), " is not the tokenizer of the model, ",
                  differs->theirs.string(), ": ", differs->what,
                  "; its ids mean something else to the weights"));
}

}  // namespace lmtrain
