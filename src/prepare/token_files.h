// data.format "tokens": documents that are ids already, in files of other programs
// (docs/formats/token_files.md) and in tables (text/id_rows.h); tokenizer.model must be given. One
// pass finds the documents, checks every id against the tokenizer's vocabulary, and hashes them.
// Files of bare ids are trained on where they lie: the cache gets shards that refer to them. Where
// a file is a table, the cache gets shards with the ids of all files.
//
// A row of a table is a document. In files of ids, Megatron's index says where documents begin; in
// llm.c's files a fixed id begins each; elsewhere the tokenizer's EOS ends a document and its BOS
// begins one. A document never goes on in the next file. The pass needs 40 bytes of memory a
// document, and making the shards about 100 more.
#pragma once

#include <vector>

#include "config/config.h"
#include "prepare/cache.h"
#include "prepare/prepare.h"
#include "text/source_file.h"

namespace lmtrain {

// The listed files of data.train and data.eval.
struct TokenSources {
  std::vector<SourceFile> train;
  std::vector<SourceFile> eval;
};
// Lists them. Throws what list_source_files() throws.
TokenSources list_token_sources(const Config& config);

// Returns whether `files` hold token ids, with a data.format that leaves this open: whether the
// first table among them has a column of ids and no text. Logs a note where it has both. Throws
// Error(kData) where it is damaged, and Error(kIo).
bool are_id_tables(const std::vector<SourceFile>& files, const DataConfig& data);

// Returns the prepared data of `config`, from the cache where it is there. Throws Error(kConfig)
// without tokenizer.model, Error(kData) with file and token, or row and position, for damaged files
// and ids outside the vocabulary, and StopRequested.
PreparedData prepare_token_files(const Config& config, const Cache& cache, TokenSources sources);

}  // namespace lmtrain
