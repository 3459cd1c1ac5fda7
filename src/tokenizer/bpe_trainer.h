// Trains byte pair encoding (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with
// Subword Units"): starting from characters, the most frequent adjacent pair becomes a piece, again
// and again.
//
// The trainer is our own, since sentencepiece's breaks ties by memory addresses, aborts the process
// on long words and cannot be interrupted. Counts are integers and ties are broken by content
// (fewer characters, then byte order), so the same words give the same pieces on every machine.
//
// Time is linear in the characters of distinct words, however long a word is. Memory: some 10 bytes
// for each of these characters, and 120 for each distinct pair of neighbours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/word_counter.h"

namespace lmtrain {

struct BpePieces {
  std::vector<std::string> merges;      // in the order learned; a space is written as a space
  std::vector<std::string> characters;  // most frequent first
};

// Learns up to `budget` pieces: first the most frequent characters, until they make up `coverage`,
// a fraction, of the text, then merges. There are fewer merges where no two neighbours are left to
// join. Requires words in UTF-8, as WordCounter::add() cuts them. Characters are kept even if they
// exceed the budget. A piece has at most 16 characters; it has one space at most, in front, or
// consists of spaces alone. `work` gets the number of places in the words that were looked at.
// Throws StopRequested on a signal, and Error(kData) for words of more than 2e9 characters.
BpePieces train_bpe(WordCounts words, int64_t budget, double coverage, uint64_t* work = nullptr);

}  // namespace lmtrain
