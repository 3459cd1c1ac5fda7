// Finds the added tokens of a vocabulary in text, as Hugging Face's `tokenizers` does
// (AddedVocabulary). The leftmost token wins, and of several there the longest. Threads may share
// it. Text is searched before it is normalised, and for `normalized` tokens again after that.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/split_regex.h"

namespace lmtrain {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // not found inside a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = true;    // is looked for in normalised text, in normal form
  bool special = false;      // is left out of decoded text
};

class AddedTokens {
 public:
  // find() looks for all of `tokens`, and ignores their `normalized` and `special`. Of tokens with
  // equal contents the first counts. An empty token is never found.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // A Part is an added token with the white space that it takes, or text between two tokens. Two
  // parts overlap if the second token begins with white space that the first has taken.
  struct Part {
    const AddedToken* token;  // null: text; else valid as long as the AddedTokens
    size_t begin;             // in bytes
    size_t end;
  };
  // Sets `parts` to the parts of `text`, which must be valid UTF-8 and not empty.
  void find(std::string_view text, std::vector<Part>& parts) const;
  bool empty() const { return tokens_.empty(); }

 private:
  size_t next_begin(std::string_view text, size_t at) const;
  bool is_word_before(std::string_view text) const;
  bool is_word_after(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> begins_{};  // bytes that a token begins with
  size_t num_begins_ = 0;
  char a_begin_ = 0;                  // one of them
  ByteTrie contents_ = ByteTrie({});  // the values are indices of tokens_
  std::optional<SplitRegex> word_;    // a character of a word; set if a token has single_word
};

}  // namespace lmtrain
