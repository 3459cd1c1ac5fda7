// Trains byte-level byte pair encoding (Sennrich et al. 2016; on bytes: Radford et al. 2019,
// "Language Models are Unsupervised Multitask Learners"): starting from the 256 bytes, the most
// frequent pair of neighbours becomes a token, again and again.
//
// The merges are those of BpeTrainer of Hugging Face's `tokenizers` with the alphabet of ByteLevel:
// a pair counts wherever its tokens are neighbours, so "aaa" has the pair "a a" twice; of equal
// counts the pair of the lower ids wins, the left id first. bpe_trainer.h follows sentencepiece
// instead: there every two neighbours that spell a piece are one candidate, pieces are limited, and
// ties are broken by the text. The same words give the same merges on every machine.
#pragma once

#include <cstdint>

#include "tokenizer/byte_bpe.h"
#include "tokenizer/word_counter.h"

namespace lmtrain {

// Returns up to `num_tokens` tokens, fewer when every word is one token: first the 256 bytes, in
// the order of their characters in byte_alphabet.h, then one for each merge. A word may be any
// bytes. Requires num_tokens >= 256. Throws StopRequested on a signal.
ByteBpeModel train_byte_bpe(const WordCounts& words, int64_t num_tokens);

}  // namespace lmtrain
