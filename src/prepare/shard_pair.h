// A ShardPair writes the two shards of a preparation: training text and held-out text. A
// preparation that was interrupted continues them from the progress of the last sync().
#pragma once

#include <filesystem>
#include <memory>

#include "formats/token_shard.h"
#include "prepare/hash_ordered_shard.h"
#include "prepare/journal.h"
#include "prepare/prepare.h"

namespace lmtrain {

class ShardPair {
 public:
  // Begins train.bin and, with `has_eval`, eval.bin in `folder`, which must exist. `vocab_size`
  // bounds the ids.
  ShardPair(const std::filesystem::path& folder, int64_t vocab_size, bool has_eval);
  // Continues the shards of `progress`, with an eval shard if it has one. Throws Error(kData) or
  // Error(kIo) where what was synced is missing or changed.
  ShardPair(const std::filesystem::path& folder, int64_t vocab_size,
            const TokensProgress& progress);

  void add_train(const EncodedDocument& document);
  void add_eval(const EncodedDocument& document, int32_t source);  // requires has_eval()
  bool has_eval() const { return eval_ != nullptr; }
  int64_t num_train_documents() const { return train_->num_documents(); }
  // Syncs both shards, and stores in `progress` how far they are: its fields train, eval and the
  // bytes of both.
  void sync(TokensProgress& progress);
  // Publishes both shards by rename, and stores their paths and counts, and the sources of the
  // documents of eval.bin, in `data`. Call it once.
  void finish(PreparedData& data);

 private:
  std::filesystem::path train_path_;
  std::filesystem::path eval_path_;
  std::unique_ptr<TokenShardWriter> train_;
  std::unique_ptr<HashOrderedShardWriter> eval_;
  int64_t train_bytes_ = 0;
  int64_t eval_bytes_ = 0;
};

}  // namespace lmtrain
