// data.format "tokens": documents that are ids already, in files of other programs
// (docs/formats/token_files.md), trained on where they lie. One pass finds the documents, checks
// every id against the tokenizer's vocabulary, and hashes them; the cache gets shards that refer to
// the files.
//
// Documents are found by Megatron's index; in llm.c's files by the id that begins each; elsewhere
// by the tokenizer's EOS, which ends one, and its BOS, which begins one. They never go on in the
// next file. Memory: 48 bytes a document. Error(kData) with file and location.
#pragma once

#include "config/config.h"
#include "corpus/cache.h"
#include "corpus/prepare.h"

namespace lmtrain {

PreparedData prepare_token_files(const Config& config, const Cache& cache);

}  // namespace lmtrain
