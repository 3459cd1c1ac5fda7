// Says, for an error message, what a file is that is no sentencepiece model.
#pragma once

#include <string>
#include <string_view>

namespace lmtrain {

// Returns a description such as "a zip archive or a PyTorch file"; empty for bytes that may be a
// sentencepiece model. Requires that is_tokenizer_json(bytes) is false.
std::string other_than_sentencepiece(std::string_view bytes);

}  // namespace lmtrain
