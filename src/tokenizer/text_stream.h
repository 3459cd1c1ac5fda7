// A TextStream turns the tokens of a text into the text while they come, for a reader who sees it
// grow: what it gives joins to Tokenizer::decode of the whole, and never ends in half a character.
//
// It decodes the newest tokens alone, so that the cost of a token does not grow with the text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace lmtrain {

class TextStream {
 public:
  // Begins behind `prompt`, whose text the reader has. The tokenizer must outlive this object.
  TextStream(const Tokenizer& tokenizer, std::vector<int32_t> prompt);

  // Returns the text that is complete with this token: nothing while the bytes of a character are
  // missing. Throws like Tokenizer::decode.
  std::string add(int32_t token);
  // Returns what is still missing where no token follows: U+FFFD for the bytes of a character that
  // was begun.
  std::string finish();

 private:
  // Returns the bytes of `text` from given_ to `end`, and moves given_ there.
  std::string take(const std::string& text, size_t end);
  void forget_oldest(const std::string& text);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> window_;  // the newest tokens
  size_t given_;                 // bytes of their text that the reader has
};

// Returns the text of `tokens`, which continue the tokens of `prompt`.
std::string continued_text(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
                           const std::vector<int32_t>& tokens);

}  // namespace lmtrain
