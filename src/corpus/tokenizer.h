// A sentencepiece model behind our own type; the only include of the library is in tokenizer.cpp. Encoding is const and
// thread-safe. Ids are always those of SentencePieceProcessor::Encode.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace lmtrain {

class Tokenizer {
 public:
  // `model` is the bytes of a .model file. Error(kData) naming `origin` when it is not one.
  Tokenizer(std::string model, const std::string& origin);
  static Tokenizer load(const std::filesystem::path& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  int64_t vocab_size() const;
  int32_t bos_id() const;  // -1: the model has none
  int32_t eos_id() const;
  int32_t unk_id() const;
  int32_t pad_id() const;
  std::vector<int32_t> encode(std::string_view text) const;
  // The document as trained on: BOS and EOS as asked for. Error(kData) when the model lacks one.
  std::vector<int32_t> encode_document(std::string_view text, bool add_bos, bool add_eos) const;
  std::string decode(const std::vector<int32_t>& ids) const;

  const std::string& model_bytes() const { return model_; }
  // tokenizer_config.json with which transformers' AutoTokenizer gives the same ids.
  std::string hf_tokenizer_config(bool add_bos, bool add_eos) const;

 private:
  struct Impl;
  std::string model_;
  std::unique_ptr<Impl> impl_;
};

// Trains a model (identity normalisation, no dummy prefix, whitespace-only pieces, byte fallback: lossless) on documents
// that `next` yields until it returns false. Ids: unk 0, bos 1, eos 2. Deterministic. Returns the .model bytes.
// Error(kData) when the text is too small for the vocabulary, saying which vocab_size fits.
std::string train_tokenizer(const TokenizerTrainConfig& config, const std::function<bool(std::string&)>& next,
                            int num_threads);

}  // namespace lmtrain
