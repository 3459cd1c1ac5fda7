#include "prepare/shard_pair.h"

namespace lmtrain {

ShardPair::ShardPair(const std::filesystem::path& folder, int64_t vocab_size, bool has_eval)
    : train_path_(folder / "train.bin"),
      eval_path_(folder / "eval.bin"),
      train_(std::make_unique<TokenShardWriter>(train_path_, vocab_size)) {
  if (has_eval) eval_ = std::make_unique<HashOrderedShardWriter>(eval_path_, vocab_size);
}

ShardPair::ShardPair(const std::filesystem::path& folder, int64_t vocab_size,
                     const TokensProgress& progress)
    : train_path_(folder / "train.bin"),
      eval_path_(folder / "eval.bin"),
      train_(std::make_unique<TokenShardWriter>(train_path_, vocab_size, progress.train)),
      train_bytes_(progress.train_bytes),
      eval_bytes_(progress.eval_bytes) {
  if (progress.eval)
    eval_ = std::make_unique<HashOrderedShardWriter>(eval_path_, vocab_size, *progress.eval);
}

void ShardPair::add_train(const EncodedDocument& document) {
  train_->add_document(document.ids, document.bytes);
  train_bytes_ += static_cast<int64_t>(document.bytes);
}

void ShardPair::add_eval(const EncodedDocument& document, int32_t source) {
  eval_->add_document(document, source);
  eval_bytes_ += static_cast<int64_t>(document.bytes);
}

void ShardPair::sync(TokensProgress& progress) {
  progress.train = train_->sync();
  progress.train_bytes = train_bytes_;
  if (eval_) progress.eval = eval_->sync();
  progress.eval_bytes = eval_bytes_;
}

void ShardPair::finish(PreparedData& data) {
  data.train_shard = train_path_;
  data.train_documents = train_->num_documents();
  data.train_tokens = train_->num_tokens();
  data.train_bytes = train_bytes_;
  train_->finish();
  if (!eval_) return;
  data.eval_shard = eval_path_;
  data.eval_documents = eval_->num_documents();
  data.eval_tokens = eval_->num_tokens();
  data.eval_bytes = eval_bytes_;
  data.eval_sources = eval_->finish();
}

}  // namespace lmtrain
