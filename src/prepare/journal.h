// The journal stores how far a preparation came, so that after a kill at any instant the next start
// goes on from there: in the scan of the text from the next file, in tokenization from the next
// document.
//
// It is one file in the cache per request, has a checksum of its own, and is replaced as a whole;
// the shards that it refers to were synced before. It is saved every few seconds, so a short
// preparation leaves none. Only one thread may use it.
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
  bool in_eval = false;                 // data.train is done, and data.eval is being tokenized
  DocumentLocation next;                // the first document not yet in the shards
  Hash128 content = Hasher().digest();  // hash of the documents before `next`
  ShardProgress train;
  int64_t train_bytes = 0;
  std::optional<HashOrderedProgress> eval;
  int64_t eval_bytes = 0;
  FileTally files;  // the files of the train shard's documents
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
  // no journal or, with a warning, where it is broken. Throws Error(kIo) where it cannot be read.
  bool load(PreparationState& state) const;
  // Returns whether `save_every` has passed since the journal was made or saved.
  bool due() const { return Clock::now() - saved_ >= options_.save_every; }
  // Replaces the saved state, calls `after_save` of the options, and restarts the time of due().
  void save(const PreparationState& state);
  void remove() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path path_;
  PrepareOptions options_;
  Clock::time_point saved_ = Clock::now();
};

}  // namespace lmtrain
