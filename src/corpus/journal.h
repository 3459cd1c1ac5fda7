// How far a preparation came, so that after a kill at any instant the next start goes on from
// there: the scan of the text at the file, tokenization at the document. One file in the cache per
// request, with a checksum of its own, replaced as a whole; what it speaks of was synced before. It
// is saved every few seconds, so a short preparation leaves none. One thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "corpus/prepare.h"
#include "corpus/shards/hash_ordered_shard.h"
#include "corpus/shards/held_out.h"
#include "corpus/shards/overlap.h"
#include "corpus/shards/source_runs.h"
#include "corpus/sources/corpus.h"
#include "formats/token_shard.h"

namespace lmtrain {

struct TokensProgress {
  std::string fingerprint;
  bool in_eval = false;                 // in the text of data.eval; that of data.train is done
  DocumentLocation next;                // the first document not yet in the shards
  Hash128 content = Hasher().digest();  // of the documents before it
  ShardProgress train;
  int64_t train_bytes = 0;
  std::optional<HashOrderedProgress> eval;
  int64_t eval_bytes = 0;
  FileTally files;  // of the train shard
};

struct PreparationState {
  CorpusScan eval;  // this one is scanned first
  CorpusScan train;
  SourceShapes sources;
  Sample sample;
  OverlapFinder overlap;
  std::optional<HoldOut> held_out;  // once it is decided
  std::optional<TokensProgress> tokens;
};

class Journal {
 public:
  Journal(std::filesystem::path path, const PrepareOptions& options);

  // False, with a warning where it is broken, when there is nothing to go on from.
  bool load(PreparationState& state) const;
  // `save_every` has passed since the journal was made or saved.
  bool due() const { return Clock::now() - saved_ >= options_.save_every; }
  void save(const PreparationState& state);
  void remove() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path path_;
  PrepareOptions options_;
  Clock::time_point saved_ = Clock::now();
};

}  // namespace lmtrain
