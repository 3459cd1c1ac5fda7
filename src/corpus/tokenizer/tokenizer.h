// A sentencepiece model behind our own type; the only include of the library is in tokenizer.cpp.
// Encoding is const and thread-safe. Ids are always those of SentencePieceProcessor::Encode.
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
  // Reads a .model file. Error(kUsage) for a folder, Error(kIo) or Error(kData) for what cannot be
  // read or is no model.
  static Tokenizer load(const std::filesystem::path& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  int64_t vocab_size() const;
  int32_t bos_id() const;  // -1: the model has none
  int32_t eos_id() const;
  int32_t unk_id() const;
  int32_t pad_id() const;
  // The ids of the text alone, without BOS and EOS.
  std::vector<int32_t> encode(std::string_view text) const;
  // Why the library itself encodes, several times slower than BpeEncoder; empty when it does not.
  const std::string& why_slow() const;
  // Error(kData) when the model lacks the piece that is asked for.
  void require_special_ids(bool add_bos, bool add_eos) const;
  // The document as trained on: BOS and EOS as asked for, required as above.
  std::vector<int32_t> encode_document(std::string_view text, bool add_bos, bool add_eos) const;
  // The text of the ids. Error(kInternal) for an id outside the vocabulary.
  std::string decode(const std::vector<int32_t>& ids) const;

  const std::string& model_bytes() const { return model_; }
  // The text of a tokenizer_config.json with which AutoTokenizer of transformers 4 and 5 gives the
  // same ids, also for text that spells special tokens (except unigram). add_eos_token is always
  // false: prompts would end in EOS.
  std::string hf_tokenizer_config(bool add_bos, int64_t model_max_length) const;

 private:
  struct Impl;
  std::string model_;
  std::unique_ptr<Impl> impl_;
};

// Trains a model (identity normalisation, no dummy prefix, whitespace-only pieces, byte fallback:
// lossless) on the texts that `feed` passes to the function it is given. Ids: unk 0, bos 1, eos 2.
// The same texts in the same order give the same .model bytes. Error(kData) when the text is too
// small for the vocabulary, saying which vocab_size fits.
using TextSink = std::function<void(std::string_view text)>;
std::string train_tokenizer(const TokenizerTrainConfig& config,
                            const std::function<void(const TextSink&)>& feed);

}  // namespace lmtrain
