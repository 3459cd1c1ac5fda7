// A tokenizer: a sentencepiece model, or a Hugging Face tokenizer.json of byte-level BPE. Encoding
// is const and thread-safe. Ids are always those of SentencePieceProcessor::Encode of sentencepiece
// 0.2.3, with the added tokens of the files beside the model, or those of
// `Tokenizer.encode(text, add_special_tokens=False)` of the library `tokenizers`.
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
  // `model` holds the bytes of a .model file or of a tokenizer.json. Throws Error(kData) naming
  // `origin` when it is neither, or a tokenizer.json with a part that is not supported.
  Tokenizer(std::string model, const std::string& origin);
  // `files` are as read_files() returns them: one of these first, then the files beside it.
  Tokenizer(std::vector<TokenizerFile> files, const std::string& origin);
  // Reads such a file, and the tokenizer_config.json and special_tokens_map.json beside it, which
  // name BOS and EOS; beside a model also added_tokens.json. Throws Error(kUsage) for a folder,
  // Error(kIo) where a file cannot be read, and Error(kData) where it is no tokenizer.
  static Tokenizer load(const std::filesystem::path& path);
  // Reads the files that load() reads, whatever they hold. Throws like it, but Error(kData) only
  // for a file that is too large (read_file.h) or no regular one.
  static std::vector<TokenizerFile> read_files(const std::filesystem::path& path);

  // The largest id and one more.
  int64_t vocab_size() const { return model_->vocab_size(); }
  int32_t bos_id() const { return ids_.bos; }  // -1: the tokenizer has none
  int32_t eos_id() const { return ids_.eos; }
  int32_t unk_id() const { return ids_.unk; }
  int32_t pad_id() const { return ids_.pad; }
  // Returns whether texts begin with BOS by the tokenizer's own files, for callers without a
  // setting. A sentencepiece model that has BOS does so unless add_bos_token beside it is false.
  bool adds_bos() const { return model_->adds_bos(); }
  // Returns the ids of the text alone, without BOS and EOS. Throws Error(kData) for a text that the
  // tokenizer cannot encode.
  std::vector<int32_t> encode(std::string_view text) const { return model_->encode(text); }
  // Returns why sentencepiece itself encodes, several times slower than BpeEncoder; empty when
  // our own encoders do.
  const std::string& why_slow() const { return model_->why_slow(); }
  // Throws Error(kData) when the tokenizer lacks BOS or EOS and it is asked for.
  void require_special_ids(bool add_bos, bool add_eos) const;
  // Returns the ids of a document as it is trained on, with BOS and EOS as asked for. Throws like
  // require_special_ids() and encode().
  std::vector<int32_t> encode_document(std::string_view text, bool add_bos, bool add_eos) const;
  // Returns the ids of a text that a model is to continue, one at least: without EOS, and the id of
  // BOS (0 where there is none) where they would be none. Throws like encode_document().
  std::vector<int32_t> encode_prompt(std::string_view text, bool add_bos) const;
  // Returns the text of the ids, in UTF-8; control and special tokens have none. Throws
  // Error(kInternal) for an id outside the vocabulary.
  std::string decode(const std::vector<int32_t>& ids) const;
  // Returns, by id, how many bytes of text each piece stands for. The sum over a document is the
  // size of its text, except where the tokenizer normalised the text, and but for space_in_bytes().
  std::vector<uint32_t> piece_bytes() const { return model_->piece_bytes(); }
  // Returns the ids of the byte pieces that in this order stand for one space, together one byte of
  // text: sentencepiece spells a space so where its model has no piece for one. Empty else.
  std::vector<int32_t> space_in_bytes() const { return model_->space_in_bytes(); }

  // The bytes of the .model file or of the tokenizer.json.
  const std::string& model_bytes() const { return files_.front().bytes; }
  bool is_json() const { return files_.front().name == kTokenizerJson; }
  // The files that decide ids, tokenizer.model or tokenizer.json first. Equal files give equal ids.
  const std::vector<TokenizerFile>& files() const { return files_; }
  // Returns the text of a tokenizer_config.json with which AutoTokenizer of transformers 4 and 5
  // gives the same ids, also for text that spells special tokens (except unigram); not needed with
  // a tokenizer.json where files() has one. `model_max_length` is in tokens. `add_bos` counts for a
  // .model file alone, since the post-processor of a tokenizer.json decides. For a .model file
  // add_eos_token is always false: else prompts would end in EOS.
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
// tokenizer.json first. `feed` is called once, and passes each text to the function that it is
// given.
//  - "bpe" and "unigram" give a sentencepiece model that is lossless: identity normalisation, no
//    dummy prefix, whitespace-only pieces, byte fallback if the config asks for it. Ids: unk 0, bos
//    1, eos 2.
//  - "byte_bpe" gives a tokenizer.json of byte-level BPE. Ids: bos 0, eos 1. Its post-processor
//    puts BOS before a text where `config.add_bos` says so.
// The same texts in the same order give the same bytes. Throws Error(kData) when there is no text,
// or when vocab_size is too large or too small for it, with a size that fits; StopRequested on a
// signal, but not while sentencepiece trains a unigram model; and the errors of `feed`.
using TextSink = std::function<void(std::string_view text)>;
std::vector<TokenizerFile> train_tokenizer(const TokenizerConfig& config,
                                           const std::function<void(const TextSink&)>& feed);

}  // namespace lmtrain
