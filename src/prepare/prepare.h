// Preparation turns the files of the config into a tokenizer and token shards in `data.cache_dir`.
// It does so once: a fingerprint of content, tokenizer and settings names the shards, and an index
// by path, size and mtime leads to the fingerprint. So a second start reads no text.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "formats/token_shard.h"
#include "prepare/overlap.h"
#include "text/corpus.h"

namespace lmtrain {

struct PreparedData {
  std::filesystem::path tokenizer_model;  // given by the config, or in the cache
  std::filesystem::path train_shard;
  std::optional<std::filesystem::path>
      eval_shard;  // documents in hash order; none: no held-out text
  // The source of each document of eval_shard: the index of its entry in data.eval, else in
  // data.train. Empty where has_eval_sets() is false (eval_sets.h).
  std::vector<int32_t> eval_sources;
  std::string fingerprint;         // hexadecimal Hash128 of content, split, tokenizer, BOS and EOS
  std::vector<SourceRun> sources;  // ascending; the first run begins at document 0
  std::filesystem::path document_files;  // table of the file of each document (source_runs.h)
  Overlap eval_in_train;  // documents of data.eval in data.train too; 0 of 0 without data.eval
  int64_t train_documents = 0, train_tokens = 0, train_bytes = 0;  // bytes of text
  int64_t eval_documents = 0, eval_tokens = 0, eval_bytes = 0;
  CorpusCounts train_text;  // data.train as it was read, held-out text too
  CorpusCounts eval_text;   // the same of data.eval

  // TokenShard::count_targets() of the shards.
  int64_t train_targets = 0, eval_targets = 0;
};

// PrepareOptions say how often a preparation saves its state, and what it calls after each save.
struct PrepareOptions {
  std::chrono::milliseconds save_every = std::chrono::seconds(10);
  std::function<void()> after_save = [] {};  // where tests kill the process
};
// Prepares the data of `config`, or finds it prepared in the cache. Logs progress and a summary
// (documents, bytes, empty documents, documents with invalid UTF-8). Killed at any instant, it
// continues at the next call from the last save; for token files it begins again. Of several
// processes with one cache, on one machine or on several, the process that locks the entry
// prepares; the others wait and find the result. Throws Error(kMemory), Error(kIo), and:
//   Error(kUsage), Error(kConfig)  a path or a format cannot be used
//   Error(kData)                   a file is damaged, empty, or changes meanwhile
//   StopRequested                  on a signal
PreparedData prepare_data(const Config& config, int num_threads,
                          const PrepareOptions& options = {});

// Tokenizes documents for `eval --data` and writes them in order to the token shard `shard`. Does
// not use the cache. `paths` are files, folders and globs. Of `reading` only format, text_field,
// max_document and on_bad_line have an effect. Throws what prepare_data() throws, without the
// advice to set on_bad_line, and Error(kData) when there is no document, or no text in them.
void tokenize_paths(const std::vector<std::string>& paths, const DataConfig& reading,
                    const std::filesystem::path& tokenizer_model, bool add_bos, bool add_eos,
                    const std::filesystem::path& shard, int num_threads = 1);

}  // namespace lmtrain
