#include "tools/loaded_model.h"

#include "base/error.h"
#include "base/files/examine.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "checkpoint/run_config.h"
#include "config/init_from.h"
#include "device/device.h"
#include "device/torch_headers.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "run/given_model.h"
#include "train/resolve.h"

namespace lmtrain {

LoadedModel::LoadedModel(const ModelLocation& location, const LoadedModelOptions& options)
    : num_threads_(default_threads()), tokenizer_path_(options.tokenizer_path) {
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
  if (!options.tokenizer_path.empty()) warn_of_other_tokenizer(location.folder);
  if (location.run) {
    const Config config = read_run_config(RunFolder(*location.run)).config;
    add_bos_ = config.tokenizer.add_bos;
    add_eos_ = config.tokenizer.add_eos;
  } else {
    add_bos_ = tokenizer_->adds_bos();
    add_eos_ = tokenizer_->eos_id() >= 0;
  }
  parameters_ =
      std::make_unique<Parameters>(ParameterLayout(model, vocab_size),
                                   resolve_precision(options.precision, device).dtype, device);
  load_weights(TensorFiles(location.folder), *parameters_);
  const int64_t max_length =
      options.max_length > 0 ? options.max_length : located_max_length(location);
  model_ = std::make_unique<Llama>(model, *parameters_, max_length, CompileMode::kScript);
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
