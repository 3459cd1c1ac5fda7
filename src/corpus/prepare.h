// From the config's paths to a tokenizer and token shards in `data.cache_dir`, once: the cache is
// keyed by a fingerprint of content, tokenizer and settings, and remembered by path, size and
// mtime, so a second start reads no text.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "corpus/shards/overlap.h"
#include "corpus/sources/format.h"
#include "formats/source_run.h"
#include "formats/token_shard.h"

namespace lmtrain {

struct PreparedData {
  std::filesystem::path tokenizer_model;  // in the cache, or the one given
  std::filesystem::path train_shard;
  std::optional<std::filesystem::path>
      eval_shard;                  // documents in hash order; none: no held-out text
  std::string fingerprint;         // Hash128 hex over content, split, tokenizer, document settings
  std::vector<SourceRun> sources;  // ascending; the first begins at document 0
  std::filesystem::path document_files;  // which documents are of which file (document_files.h)
  Overlap eval_in_train;  // documents of data.eval that are in data.train too; 0 of 0 without
  int64_t train_documents = 0, train_tokens = 0, train_bytes = 0;
  int64_t eval_documents = 0, eval_tokens = 0, eval_bytes = 0;
  FormatCounts train_formats;  // files of data.train, and documents before any are held out
  FormatCounts eval_formats;   // of data.eval
};

// Logs progress and a summary (documents, bytes, empty documents, documents with invalid UTF-8).
// Polls stop_signal() and throws StopRequested when asked to stop. Two processes that share a cache
// do not harm each other (lock and rename).
// Killed at any instant, the next call goes on from what was saved.
struct PrepareOptions {
  std::chrono::milliseconds save_every = std::chrono::seconds(10);
  std::function<void()> after_save = [] {};  // where tests kill the process
};
PreparedData prepare_data(const Config& config, int num_threads,
                          const PrepareOptions& options = {});

// Tokenizes loose documents for `eval --data` into `shard`, in order, no cache, same readers. Paths
// may be files, folders, globs.
void tokenize_paths(const std::vector<std::string>& paths, DataFormat format,
                    const std::string& text_field, const std::filesystem::path& tokenizer_model,
                    bool add_bos, bool add_eos, const std::filesystem::path& shard,
                    int num_threads = 1);

}  // namespace lmtrain
