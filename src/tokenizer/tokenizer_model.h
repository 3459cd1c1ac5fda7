// The interface of the tokenizers behind Tokenizer: one is a sentencepiece model, the other a
// tokenizer.json. Encoding and decoding are const and thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// A file of a tokenizer, under the name that it has in a model's folder.
struct TokenizerFile {
  std::string name;
  std::string bytes;
  bool operator==(const TokenizerFile&) const = default;
};

// Ids of special tokens; -1 where there is none.
struct SpecialIds {
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t unk = -1;
  int32_t pad = -1;
};

class TokenizerModel {
 public:
  virtual ~TokenizerModel() = default;

  // The functions of the same names in Tokenizer (tokenizer.h) call these. decode() requires ids of
  // the vocabulary and does not check them.
  virtual int64_t vocab_size() const = 0;
  virtual SpecialIds special_ids() const = 0;
  virtual bool adds_bos() const = 0;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;
  virtual std::vector<uint32_t> piece_bytes() const = 0;
  virtual std::vector<int32_t> space_in_bytes() const { return {}; }
  virtual bool is_in_run(int32_t /*id*/) const { return false; }
  virtual const std::string& why_slow() const = 0;
  virtual std::string hf_tokenizer_config(bool add_bos, int64_t model_max_length) const = 0;
};

// Makes a tokenizer of files[0], a sentencepiece model, and of the files beside it that
// added_pieces.h reads. If these add no tokens, removes them from `files`. Throws Error(kData) that
// names `origin` for a file that is damaged or not supported.
std::unique_ptr<TokenizerModel> make_sentencepiece_tokenizer(std::vector<TokenizerFile>& files,
                                                             const std::string& origin);
// Makes a tokenizer of files[0], a tokenizer.json. tokenizer_config.json and
// special_tokens_map.json may follow; they name BOS, EOS, UNK and padding. Throws as above.
std::unique_ptr<TokenizerModel> make_json_tokenizer(const std::vector<TokenizerFile>& files,
                                                    const std::string& origin);
// Returns whether bytes are meant as a tokenizer.json, damaged or not: the first character beside
// white space is "{", and they hold the key "added_tokens", or both "model" and "vocab".
bool is_tokenizer_json(std::string_view bytes);

}  // namespace lmtrain
