// Prepares documents that are ids already (data.format "tokens"), in files of other programs
// (docs/formats/token_files.md) and in tables (text/id_rows.h). tokenizer.model must be given. One
// pass finds the documents, checks every id against the tokenizer's vocabulary, and hashes the
// documents. Files of ids stay where they are: the cache gets token references to them. Where any
// file is a table, the cache gets shards with the ids of all files.
//
// A row of a table is a document. In files of ids, Megatron's index says where documents end; in
// llm.c's files a fixed id begins each document; elsewhere the tokenizer's EOS ends a document and
// its BOS begins one. No document continues in the next file. The pass needs 40 bytes of memory a
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
// Lists the files. Throws what list_source_files() throws.
TokenSources list_token_sources(const Config& config);

// Decides whether `files` hold token ids, where data.format leaves this open. Returns true if the
// first table among them has a column of ids and no text, or is a chunk of litdata. Logs a note
// where it has ids and text. Throws Error(kData) where it is damaged, Error(kConfig) and
// Error(kIo).
bool are_id_tables(const std::vector<SourceFile>& files, const DataConfig& data);

// Returns the prepared data of `config`, from the cache if it is there. Throws:
//   Error(kConfig)  tokenizer.model is not given
//   Error(kUsage)   tokenizer.model does not exist, or is a folder
//   Error(kData)    a file is damaged, or an id is outside the vocabulary; the message names file
//                   and token, or file, row and position
//   Error(kIo)      the operating system refuses
//   StopRequested   on a signal
PreparedData prepare_token_files(const Config& config, const Cache& cache, TokenSources sources);

}  // namespace lmtrain
