// Trains byte-level byte pair encoding (Sennrich et al. 2016; on bytes: Radford et al. 2019,
// "Language Models are Unsupervised Multitask Learners"). The first tokens are the 256 bytes. Each
// step then makes the most frequent pair of neighbours a token.
//
// BpeTrainer of Hugging Face's `tokenizers`, with the alphabet of ByteLevel, learns the same
// merges. A pair counts wherever its tokens are neighbours, so "aaa" has the pair "a a" twice. A
// tie goes to the pair with the lower left id, then the lower right id. The same words give the
// same merges on every machine. bpe_trainer.h follows sentencepiece instead: all pairs that spell
// the same piece are one candidate, pieces are limited, and the text breaks ties.
//
// Time is linear in the bytes of distinct words, however long a word is. Memory: some 10 bytes for
// each of these bytes, and 100 for each distinct pair of neighbours.
#pragma once

#include <cstdint>

#include "tokenizer/byte_bpe.h"
#include "tokenizer/word_counter.h"

namespace lmtrain {

// Returns up to `num_tokens` tokens, and fewer once every word is one token. The first 256 are the
// bytes, in the order of their characters in byte_alphabet.h. One token a merge follows. A word may
// be any bytes. Requires num_tokens >= 256. Unless `work` is null, *work becomes the number of
// places in words that were looked at. Throws StopRequested on a signal, and Error(kData) for words
// of more than 2e9 bytes in all.
BpeModel train_byte_bpe(WordCounts words, int64_t num_tokens, uint64_t* work = nullptr);

}  // namespace lmtrain
