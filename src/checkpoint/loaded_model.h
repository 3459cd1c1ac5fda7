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
  int64_t max_length = 0;          // tokens of a row; 0: located_max_length()
  std::string tokenizer_path;      // empty: the tokenizer in the folder
};

class LoadedModel {
 public:
  // Sets up libtorch's threads, and loads tokenizer and weights. Warns if the given tokenizer is
  // not the tokenizer beside the weights. Throws the errors of read_run_config
  // (checkpoint/run_config.h) for a model of a run, Error(kIo), and:
  //   Error(kUsage)   there is no tokenizer
  //   Error(kData)    the tokenizer has more tokens than the model, or a file is damaged
  //   Error(kConfig)  device or precision is not there, lmtrain has no such model, or max_length is
  //                   above its sliding_window
  LoadedModel(const ModelLocation& location, const LoadedModelOptions& options);

  // Adds to a command's answer the source of the weights: "checkpoint", their folder, and "step",
  // null if the folder is no checkpoint.
  void add_source(nlohmann::ordered_json& answer) const;
  Llama& model() { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::filesystem::path& tokenizer_path() const { return tokenizer_path_; }
  int64_t max_length() const { return model_->max_length(); }
  int num_threads() const { return num_threads_; }
  std::string precision() const;  // of the products: "fp32", "bf16" or "fp16"
  // Return whether documents begin with BOS, and end with EOS: as in the model's run or, without
  // one, as in a new run with this tokenizer (resolve_document_ends of prepare/given_tokenizer.h).
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  // Returns the ids that end a text: EOS of the tokenizer, and "eos_token_id" of the folder's
  // generation_config.json or, without that, of its config.json.
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
