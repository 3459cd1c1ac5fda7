// The two shards of a preparation under way, training and held-out text, which can be continued
// from what sync() told. Error(kData) or Error(kIo) when that is not there.
#pragma once

#include <filesystem>
#include <memory>

#include "corpus/journal.h"
#include "corpus/prepare.h"
#include "corpus/shards/hash_ordered_shard.h"
#include "formats/token_shard.h"

namespace lmtrain {

class ShardPair {
 public:
  // Begins train.bin and, with `has_eval`, eval.bin in `folder`, which must exist.
  ShardPair(const std::filesystem::path& folder, int64_t vocab_size, bool has_eval);
  // Continues those of `progress`.
  ShardPair(const std::filesystem::path& folder, int64_t vocab_size,
            const TokensProgress& progress);

  void add_train(const EncodedDocument& document);
  void add_eval(const EncodedDocument& document);  // requires has_eval()
  bool has_eval() const { return eval_ != nullptr; }
  int64_t num_train_documents() const { return train_->num_documents(); }
  // Syncs both shards, and stores in `progress` how far they are.
  void sync(TokensProgress& progress);
  // Publishes both; stores their paths and counts.
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
