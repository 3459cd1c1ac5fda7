// data.format "tokens": documents that are ids already, in files of other programs
// (docs/formats/token_files.md), trained on where they lie; tokenizer.model must be given. One pass
// finds the documents, checks every id against the tokenizer's vocabulary, and hashes them; the
// cache gets shards that refer to the files.
//
// Megatron's index says where documents begin; in llm.c's files a fixed id begins each; elsewhere
// the tokenizer's EOS ends a document and its BOS begins one. A document never goes on in the next
// file. The pass needs 40 bytes of memory a document, and making the shards about 100 more.
#pragma once

#include "config/config.h"
#include "prepare/cache.h"
#include "prepare/prepare.h"

namespace lmtrain {

// Returns the prepared data of `config`, from the cache where it is there. Throws Error(kConfig)
// without tokenizer.model, Error(kUsage) for paths that match nothing, Error(kData) with file and
// token for damaged files and ids outside the vocabulary, and StopRequested.
PreparedData prepare_token_files(const Config& config, const Cache& cache);

}  // namespace lmtrain
