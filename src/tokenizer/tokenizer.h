// A tokenizer: a sentencepiece model, or a Hugging Face tokenizer.json of BPE. Encoding
// is const and thread-safe. A sentencepiece model gives the same ids as sentencepiece 0.2.3
// (SentencePieceProcessor::Encode), with added tokens from the files beside the model. A
// tokenizer.json gives the same ids as the library `tokenizers`
// (`Tokenizer.encode(text, add_special_tokens=False)`).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "tokenizer/tokenizer_model.h"

namespace lmtrain {

class Tokenizer {
 public:
  // `model` holds the bytes of a .model file or of a tokenizer.json. Throws Error(kData), which
  // names `origin`, when it is neither, or a tokenizer.json has a part that is not supported.
  Tokenizer(std::string model, const std::string& origin);
  // `files` is a result of read_files(): a .model file or a tokenizer.json, then the files beside
  // it. Throws as above.
  Tokenizer(std::vector<TokenizerFile> files, const std::string& origin);
  // Reads a .model file or a tokenizer.json. Also reads tokenizer_config.json and
  // special_tokens_map.json beside it, which name BOS and EOS, and beside a .model file
  // added_tokens.json. Throws:
  //   Error(kUsage)  `path` is a folder
  //   Error(kIo)     a file cannot be read
  //   Error(kData)   the file is no tokenizer
  static Tokenizer load(const std::filesystem::path& path);
  // Reads the files that load() reads, and does not check what they hold. Throws Error(kUsage) and
  // Error(kIo) like load(), and Error(kData) for a file above 64 MiB or no regular file.
  static std::vector<TokenizerFile> read_files(const std::filesystem::path& path);

  // The largest id plus one.
  int64_t vocab_size() const { return model_->vocab_size(); }
  int32_t bos_id() const { return ids_.bos; }  // -1: the tokenizer has none
  int32_t eos_id() const { return ids_.eos; }
  int32_t unk_id() const { return ids_.unk; }
  int32_t pad_id() const { return ids_.pad; }
  // Returns whether the tokenizer's own files ask for BOS before a text. A sentencepiece model with
  // BOS does, unless add_bos_token is false; a tokenizer.json by post-processor or add_bos_token.
  bool adds_bos() const { return model_->adds_bos(); }
  // Returns the ids of `text`, without BOS and EOS. A malformed byte is read as U+FFFD. Throws
  // Error(kData) for a text that the tokenizer cannot encode, such as 4 GiB without a place to cut.
  std::vector<int32_t> encode(std::string_view text) const { return model_->encode(text); }
  // Returns why the slower library sentencepiece encodes; empty if our own encoders do.
  const std::string& why_slow() const { return model_->why_slow(); }
  // Throws Error(kData) when BOS or EOS is asked for and the tokenizer has none.
  void require_special_ids(bool add_bos, bool add_eos) const;
  // Returns the ids of a document for training, with BOS and EOS as asked for. Throws the errors of
  // require_special_ids() and encode().
  std::vector<int32_t> encode_document(std::string_view text, bool add_bos, bool add_eos) const;
  // Returns the ids of a text that a model is to continue, without EOS. If they are none, returns
  // the id of BOS, or 0 without BOS. Throws the errors of encode_document().
  std::vector<int32_t> encode_prompt(std::string_view text, bool add_bos) const;
  // Returns the text of `ids`, in UTF-8. Control and special tokens have no text, and malformed
  // bytes become U+FFFD. Throws Error(kInternal) for an id outside the vocabulary.
  std::string decode(const std::vector<int32_t>& ids) const;
  // Returns whether the id is a byte token such as "<0xE2>" of a tokenizer.json. A run of byte
  // tokens is decoded as a whole, so the text of one depends on its neighbours.
  bool is_in_run(int32_t id) const { return model_->is_in_run(id); }
  // Returns, by id, how many bytes of text each token stands for. The sum over a text is the text's
  // size, unless the tokenizer changes the text before it encodes, does not know a character, or
  // spells a space as space_in_bytes().
  std::vector<uint32_t> piece_bytes() const { return model_->piece_bytes(); }
  // Returns the ids of the byte tokens that spell U+2581, in order. A model without a token for the
  // space spells it so: together they stand for one byte of text. Empty without byte tokens.
  std::vector<int32_t> space_in_bytes() const { return model_->space_in_bytes(); }

  // The bytes of the .model file or of the tokenizer.json.
  const std::string& model_bytes() const { return files_.front().bytes; }
  bool is_json() const { return files_.front().name == kTokenizerJson; }
  // The files that decide ids, tokenizer.model or tokenizer.json first. Equal files give equal ids.
  const std::vector<TokenizerFile>& files() const { return files_; }
  // Returns the text of a tokenizer_config.json with which AutoTokenizer of transformers 4 and 5
  // gives the same ids, except for text that spells special tokens under a unigram model. A
  // tokenizer.json needs this text only if files() has no tokenizer_config.json. `model_max_length`
  // is in tokens. `add_bos` counts for a .model file only. If files add tokens to a .model file,
  // the text is their tokenizer_config.json with `add_bos`. Else add_eos_token is false, so that
  // prompts do not end in EOS.
  std::string hf_tokenizer_config(bool add_bos, int64_t model_max_length) const {
    return model_->hf_tokenizer_config(add_bos, model_max_length);
  }

  // Names in a model's folder.
  static constexpr std::string_view kSentencePieceModel = "tokenizer.model";
  static constexpr std::string_view kTokenizerJson = "tokenizer.json";
  static constexpr std::string_view kTokenizerConfig = "tokenizer_config.json";

 private:
  std::vector<TokenizerFile> files_;
  std::string origin_;
  std::shared_ptr<const TokenizerModel> model_;
  SpecialIds ids_;
};

// Trains a tokenizer as `config.train` says, and returns its files, tokenizer.model or
// tokenizer.json first. Calls `feed` once; `feed` passes each text to its TextSink.
//  - "bpe" and "unigram" give a sentencepiece model without loss: identity normalisation, no dummy
//    prefix, whitespace-only pieces, and byte fallback if the config asks for it. Ids: unk 0, bos
//    1, eos 2.
//  - "byte_bpe" gives a tokenizer.json of byte-level BPE. Ids: bos 0, eos 1. Unless
//    `config.add_bos` is false, its post-processor puts BOS before a text.
// The same texts in the same order give the same bytes for any `num_threads`. BPE counts
// words on so many threads, at most 16, the calling one included. Throws the errors of `feed`, and:
//   Error(kData)   there is no text, or a given vocab_size does not fit it; the message names one
//                  that fits
//   Error(kMemory) a thread is refused
//   StopRequested  on a signal, but not while sentencepiece trains a unigram model
using TextSink = std::function<void(std::string_view text)>;
std::vector<TokenizerFile> train_tokenizer(const TokenizerConfig& config,
                                           const std::function<void(const TextSink&)>& feed,
                                           int num_threads = 1);

}  // namespace lmtrain
