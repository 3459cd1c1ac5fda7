// Holds out documents of scanned token files by the hash of their ids, or blocks of them where a
// source has too few or too long ones (held_out.h). A part of a document is a range of its ids;
// nothing is added to it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/hash.h"
#include "prepare/token_scan.h"

namespace lmtrain {

struct TokenPart {
  ReferencedDocument range;
  uint64_t hash = 0;  // hash of its ids; of several blocks, their hashes combined in order
  bool held_out = false;
};

// Decides what is held out, cuts the documents of `scan`, whose files are `files`, and calls
// `visit` for each part in order; with a `fraction` of 0 each document is one part to train on.
// Adds to `hasher` what decides the split beside the fraction. It needs 24 bytes of memory for each
// block, which is at most a few thousand tokens. Throws Error(kIo), and Error(kData) for a file
// that is shorter than at the scan or has an id outside the vocabulary; the reader of the shard
// notices other changes.
void hold_out_tokens(const ScannedTokens& scan, const std::vector<SourceFile>& files,
                     const Tokenizer& tokenizer, double fraction, Hasher& hasher,
                     const std::function<void(const TokenPart&)>& visit);

}  // namespace lmtrain
