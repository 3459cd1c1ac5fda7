// Names a file that was given as a tokenizer and is no sentencepiece model. It is told by its
// content, for a message that says what to do instead.
#pragma once

#include <string>
#include <string_view>

namespace lmtrain {

// Returns a description such as "a zip archive or a PyTorch file", or an empty string for bytes
// that may be a sentencepiece model. A tokenizer.json that is_tokenizer_json() knows is not asked
// about.
std::string other_than_sentencepiece(std::string_view bytes);

}  // namespace lmtrain
