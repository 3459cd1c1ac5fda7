// Holding out of scanned token files: documents by the hash of their ids, or blocks of them
// where a source has too few or too long ones (held_out.h). A part of a document is a range of its
// ids; nothing is added to it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "corpus/shards/held_out.h"
#include "corpus/shards/token_scan.h"

namespace lmtrain {

struct TokenPart {
  ReferencedDocument range;
  uint64_t hash = 0;  // of its ids
  bool held_out = false;
};

// Decides, cuts the documents of `scan`, whose files are `files`, and calls `visit` for each part
// in order. `hasher` gets what decides the split beside the fraction. Memory: 24 bytes a block of
// up to a few thousand tokens.
void hold_out_tokens(const ScannedTokens& scan, const std::vector<SourceFile>& files,
                     const Tokenizer& tokenizer, double fraction, Hasher& hasher,
                     const std::function<void(const TokenPart&)>& visit);

}  // namespace lmtrain
