// Trains byte pair encoding (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with
// Subword Units"): pieces are characters, then each step adds the most frequent pair as a piece.
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

// Learns the most frequent characters, until they make up the share `coverage` (0 to 1) of the
// text, then merges, up to `budget` pieces in all, but at least `least_merges` of them. There may
// be more characters than `budget`, and fewer merges if no neighbours are left to join. A merge has
// at most 16 characters. It has at most one space, in front, or is all spaces. `words` are UTF-8,
// as WordCounter::add() cuts them. `work` and the errors are as in byte_bpe_trainer.h, with
// characters for bytes.
BpePieces train_bpe(WordCounts words, int64_t budget, double coverage, uint64_t* work = nullptr,
                    int64_t least_merges = 0);

}  // namespace lmtrain
