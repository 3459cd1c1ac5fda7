// Loads the model and the tokenizer of a location, so that eval and generate can compute with them.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "checkpoint/model_location.h"
#include "model/llama.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

struct LoadedModelOptions {
  std::string device = "auto";
  std::string precision = "fp32";  // auto, fp32, bf16 or fp16
  int64_t max_length = 0;          // 0: the model's
  std::string tokenizer_path;      // empty: that in the folder
};

class LoadedModel {
 public:
  // Sets up libtorch's threads, and loads tokenizer and weights. Warns when the weights belong to
  // another tokenizer than the given one. Throws Error(kUsage) when there is no tokenizer;
  // Error(kData) when it has more pieces than the model, or when a file is damaged; Error(kConfig)
  // for a device or precision that is not there, a model that lmtrain does not have, or a
  // max_length above its sliding_window; the errors of read_run_config (checkpoint/run_config.h)
  // for a model of a run; Error(kIo).
  LoadedModel(const ModelLocation& location, const LoadedModelOptions& options);

  // Adds to a command's answer which weights gave it: "checkpoint", the folder of the weights, and
  // "step", which is null when the folder is no checkpoint.
  void add_source(nlohmann::ordered_json& answer) const;
  Llama& model() { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::filesystem::path& tokenizer_path() const { return tokenizer_path_; }
  int64_t max_length() const { return model_->max_length(); }
  int num_threads() const { return num_threads_; }
  std::string precision() const;  // the dtype of its products: "fp32", "bf16" or "fp16"
  // Whether documents begin with BOS and end with EOS, as in the run of the model. A HF folder
  // without a run has what a new run with its tokenizer would have (resolve_document_ends of
  // prepare/given_tokenizer.h).
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  // Returns the ids that end a text: EOS of the tokenizer, and "eos_token_id", a number or a list.
  // generation_config.json of the folder says it, or else config.json.
  const std::set<int32_t>& stop_ids() const { return stop_ids_; }

 private:
  void warn_of_other_tokenizer(const std::filesystem::path& folder) const;

  ModelLocation location_;
  int num_threads_;
  std::filesystem::path tokenizer_path_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Llama> model_;
  bool add_bos_ = true;
  bool add_eos_ = true;
  std::set<int32_t> stop_ids_;
};

}  // namespace lmtrain
