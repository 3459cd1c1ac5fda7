// Holds out documents of scanned token files by the hash of their ids, or blocks of documents where
// a source has too few or too long documents (held_out.h). A part of a document is a range of its
// ids; it gets no BOS or EOS of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/hash.h"
#include "prepare/token_scan.h"

namespace lmtrain {

struct TokenPart {
  ReferencedDocument range;
  uint64_t hash = 0;  // of its ids; of several blocks, their hashes combined in order
  bool held_out = false;
};

// Decides what is held out of `scan`, cuts its documents, and calls `visit` for each part in order.
// `files` are the files of the scan. With a `fraction` of 0 each document is one part to train on.
// Adds the rules to `hasher` (HoldOut::add_to). Needs 24 bytes of memory for each block, of at most
// a few thousand tokens. Throws Error(kIo), and Error(kData) for a file that became shorter since
// the scan or has an id outside the vocabulary; the reader of the shard notices other changes.
void hold_out_tokens(const ScannedTokens& scan, const std::vector<SourceFile>& files,
                     const Tokenizer& tokenizer, double fraction, Hasher& hasher,
                     const std::function<void(const TokenPart&)>& visit);

}  // namespace lmtrain
