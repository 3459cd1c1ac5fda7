// Names a file that was given as a tokenizer and is no sentencepiece model. It is told by its
// content, for a message that says what to do instead.
#pragma once

#include <string>
#include <string_view>

namespace lmtrain {

// "a Hugging Face tokenizer.json, which is not read yet"; empty for bytes that may be a
// sentencepiece model.
std::string other_than_sentencepiece(std::string_view bytes);

}  // namespace lmtrain
