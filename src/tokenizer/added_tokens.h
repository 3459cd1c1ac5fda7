// Finds in text the tokens that were added to a vocabulary, as Hugging Face's `tokenizers` does
// (AddedVocabulary): the leftmost and then the longest one, before anything else is made of the
// text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/flat_map.h"
#include "tokenizer/split_regex.h"

namespace lmtrain {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and after it
  bool normalized = true;    // is looked for in normalised text, in normal form
  bool special = false;      // is no text: left out of decoded text
};

class AddedTokens {
 public:
  // find() looks for all of `tokens`, whatever their `normalized` and `special`, which the caller
  // heeds. Among equal contents the first counts; an empty one is never found.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // A Part is an added token with the white space that it takes, or the text between two of them.
  // It overlaps the part before where its token begins with white space that the former has taken.
  struct Part {
    const AddedToken* token;  // null: text; else valid as long as the AddedTokens
    size_t begin;             // in bytes
    size_t end;
  };
  // Replaces the content of `parts` by those of `text`, which is valid UTF-8 and not empty.
  void find(std::string_view text, std::vector<Part>& parts) const;
  bool empty() const { return tokens_.empty(); }

 private:
  size_t longest_at(std::string_view text, const AddedToken*& token) const;
  bool is_word_before(std::string_view text) const;
  bool is_word_after(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> begins_{};  // bytes that a token begins with
  // A trie: node << 8 | byte -> node; node 0 is the root.
  FlatMap nodes_;
  std::vector<const AddedToken*> token_of_node_;
  std::optional<SplitRegex> word_;  // a character of a word; there where a token asks for it
};

}  // namespace lmtrain
