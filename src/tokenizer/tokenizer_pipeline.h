// Converts text to ids and back by a tokenizer.json of BPE, byte-level or not: added tokens,
// normalizer, pre-tokenizer, model, post-processor, decoder. The ids are the same as Hugging Face's
// `tokenizers` gives (`Tokenizer.encode(text, add_special_tokens=False)`), and so
// is the text (`decode(ids, skip_special_tokens=True)`). Encoding is const and thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_json.h"

namespace lmtrain {

class TokenizerPipeline {
 public:
  explicit TokenizerPipeline(TokenizerJson description);
  ~TokenizerPipeline();

  // Returns the largest id plus one; ids without a token are counted.
  int64_t vocab_size() const;
  // Returns the id of a token as the file spells it, or -1.
  int32_t id_of(std::string_view token) const;
  // Returns the token of an id of the vocabulary, as the file spells it.
  const std::string& piece(int32_t id) const;
  // These return the special tokens that the post-processor puts before and after a text.
  const std::vector<int32_t>& first_ids() const;
  const std::vector<int32_t>& last_ids() const;

  // Returns the ids of `text`, which may be any bytes; a malformed byte is read as U+FFFD. Throws
  // Error(kData) for a text that the regular expression of the pre-tokenizer cannot cut.
  std::vector<int32_t> encode(std::string_view text) const;
  // Returns the text of `ids`, which must be in the vocabulary, without special tokens. A
  // byte-level tokenizer decodes each maximal part of a broken character as one U+FFFD. Another one
  // decodes each byte of a malformed run of tokens such as "<0xE2>" as U+FFFD.
  std::string decode(const std::vector<int32_t>& ids) const;
  // As Tokenizer::is_in_run().
  bool is_in_run(int32_t id) const;
  // Returns, by id, how many bytes of text each token stands for; 0 for a special token.
  std::vector<uint32_t> piece_bytes() const;
  // As Tokenizer::space_in_bytes().
  std::vector<int32_t> space_in_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lmtrain
