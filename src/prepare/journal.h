// The journal stores how far a preparation came. After a kill at any instant the next start
// continues there: a scan of the text at the next file, tokenization at the next document.
//
// It is one file in the cache for each request, with its own checksum, and save() replaces it as a
// whole. The caller syncs the shards before save(), and calls save() when due(). Only one thread
// may use it.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "formats/token_shard.h"
#include "prepare/hash_ordered_shard.h"
#include "prepare/held_out.h"
#include "prepare/overlap.h"
#include "prepare/prepare.h"
#include "prepare/source_runs.h"
#include "text/corpus.h"

namespace lmtrain {

struct TokensProgress {
  std::string fingerprint;
  bool in_eval = false;                 // data.train is tokenized, and data.eval has begun
  DocumentLocation next;                // the first document not yet in the shards
  Hash128 content = Hasher().digest();  // hash of the documents before `next`
  ShardProgress train;
  int64_t train_bytes = 0;
  std::optional<HashOrderedProgress> eval;
  int64_t eval_bytes = 0;
  FileTally files;  // the file of each document of the train shard
};

struct PreparationState {
  CorpusScan eval;  // data.eval is scanned first
  CorpusScan train;
  SourceShapes sources;
  CommonDocuments common;
  Sample sample;
  OverlapFinder overlap;
  std::optional<HoldOut> held_out;  // set once the split is decided
  std::optional<TokensProgress> tokens;
};

class Journal {
 public:
  Journal(std::filesystem::path path, const PrepareOptions& options);

  // Reads the saved state into `state`. Returns false and leaves `state` unchanged where there is
  // no journal, and, with a warning, where it is broken. Throws Error(kIo).
  bool load(PreparationState& state) const;
  // Returns whether PrepareOptions::save_every has passed since the constructor or the last save().
  bool due() const { return Clock::now() - saved_ >= options_.save_every; }
  // Replaces the saved state, calls PrepareOptions::after_save, and restarts the time of due().
  // Throws Error(kIo).
  void save(const PreparationState& state);
  void remove() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path path_;
  PrepareOptions options_;
  Clock::time_point saved_ = Clock::now();
};

}  // namespace lmtrain
