// The fixed parts of a tokenizer of tokenizer.train.type "byte_bpe", which do not depend on its
// vocabulary: the rule that cuts text into words, the special tokens, and the form of the files
// that Hugging Face's libraries open.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/byte_bpe.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer_model.h"

namespace lmtrain {

// The special tokens have the ids 0 and 1. The model's tokens have the ids from 2 on.
inline constexpr std::string_view kByteBpeBos = "<|begin_of_text|>";
inline constexpr std::string_view kByteBpeEos = "<|end_of_text|>";
inline constexpr int32_t kNumByteBpeSpecials = 2;

// Returns the pre-tokenizer of Llama 3. A word is one of:
//   a contraction, in upper or lower case
//   a run of letters, with at most one other character before it
//   one to three digits
//   a run of other characters, with at most one space before it and any line ends after it
//   white space
PreTokenizer byte_bpe_pre_tokenizer();

// Returns two files: tokenizer.json, with the bytes that the library `tokenizers` saves, and
// special_tokens_map.json, which names BOS and EOS. `model` is a result of train_byte_bpe(). With
// `add_bos` the post-processor puts BOS before a text.
std::vector<TokenizerFile> byte_bpe_files(const BpeModel& model, bool add_bos);

}  // namespace lmtrain
