// A TextStream decodes tokens one by one, for a reader who sees a text grow. Its results join to
// Tokenizer::decode of the whole text, and none ends in half a character. The cost of a token does
// not grow with the text. One thread uses a stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace lmtrain {

class TextStream {
 public:
  // The reader already has the text of `prompt`. The tokenizer must outlive the stream.
  TextStream(const Tokenizer& tokenizer, std::vector<int32_t> prompt);

  // Returns the text that `token` completes: nothing while a character lacks bytes, or while a run
  // of byte tokens goes on (Tokenizer::is_in_run()). Throws like Tokenizer::decode.
  std::string add(int32_t token);
  // Returns the rest of the text, when no token follows. A broken character at the end is U+FFFD.
  std::string finish();

 private:
  // Returns the bytes of `text` from given_ to `end`, and moves given_ there.
  std::string take(const std::string& text, size_t end);
  void forget_oldest(const std::string& text);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> window_;  // the newest tokens
  size_t given_;                 // bytes of their text that the reader has
};

// Returns the text of `tokens` behind the text of `prompt`. Throws like Tokenizer::decode.
std::string continued_text(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
                           const std::vector<int32_t>& tokens);

}  // namespace lmtrain
