// The fixed parts of a tokenizer that tokenizer.train.type "byte_bpe" trains, beside its
// vocabulary: how text is cut into words, the special tokens, and the files that Hugging Face's
// libraries open.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/byte_bpe.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer_model.h"

namespace lmtrain {

// The ids are 0 and 1; those of the model's tokens follow.
inline constexpr std::string_view kByteBpeBos = "<|begin_of_text|>";
inline constexpr std::string_view kByteBpeEos = "<|end_of_text|>";
inline constexpr int32_t kNumByteBpeSpecials = 2;

// Llama 3's cut: a contraction in either case, a run of letters with one character before it, up to
// three digits, a run of other characters with a space before and line ends behind it, and white
// space.
PreTokenizer byte_bpe_pre_tokenizer();

// Returns tokenizer.json, in the bytes that the library `tokenizers` saves, and
// special_tokens_map.json, which names BOS and EOS. `model` is as train_byte_bpe() returns it. With
// `add_bos` the post-processor puts BOS before a text.
std::vector<TokenizerFile> byte_bpe_files(const ByteBpeModel& model, bool add_bos);

}  // namespace lmtrain
