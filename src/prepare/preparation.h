// A Preparation makes the passes over the text for one request. They count the text, choose what is
// held out, train a tokenizer where none is given, and tokenize. The journal keeps the progress of
// a pass, and the cache the result of a finished preparation.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/hash.h"
#include "config/config.h"
#include "formats/token_shard.h"
#include "prepare/cache.h"
#include "prepare/hash_ordered_shard.h"
#include "prepare/journal.h"
#include "prepare/prepare.h"
#include "text/document_batches.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// A ShardPair writes the two shards of a preparation: training text and held-out text. A later
// process can continue both from the progress of the last sync(). All calls throw the errors of
// TokenShardWriter.
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
  // Syncs both shards, and sets train, train_bytes, eval and eval_bytes of `progress`.
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

// A request holds everything that decides the result. Its files are listed. decide_formats() must
// have set their formats before Preparation::run(), but index_key() needs none.
struct PreparationRequest {
  TokenizerConfig tokenizer;
  bool adds_bos = true;  // to each document
  bool adds_eos = true;
  std::optional<Tokenizer> given_tokenizer;
  std::filesystem::path given_tokenizer_path;
  Corpus train;
  std::optional<Corpus> eval;
  double eval_fraction = 0;    // 0 when `eval` is given
  bool has_eval_sets = false;  // the caller needs PreparedData::eval_sources
};

// Returns the key of the index for the request: a hash of its settings and of the path, size and
// modification time of each file. No text is read.
std::string index_key(const PreparationRequest& request);

class Preparation {
 public:
  // `request`, `cache` and `journal` must outlive the preparation.
  Preparation(const PreparationRequest& request, const Cache& cache, Journal& journal,
              int num_threads);
  // Makes the passes whose results are neither in the cache nor in the journal, and puts tokenizer
  // and shards into the cache. The caller then stores the index (Cache::store_index) and removes
  // the journal. Throws Error(kData) where the files hold no document or their text changes
  // meanwhile, and the errors of Corpus::read_file(), train_tokenizer() and Cache. Call it once.
  PreparedData run();
  // Returns, after run(), the files with documents in the train shard.
  const std::vector<DocumentFile>& files() const { return files_; }

 private:
  void scan_eval();
  void scan();
  void choose_held_out();
  void list_blocks(const HoldOut& held_out, const std::function<bool(int32_t source)>& wanted,
                   const std::function<void(int32_t source, uint64_t hash, uint64_t size)>& add);
  Tokenizer obtain_tokenizer(std::filesystem::path& path);
  std::vector<TokenizerFile> train_on_sample();
  std::string fingerprint(const Tokenizer& tokenizer) const;
  ShardPair open_shards(const Tokenizer& tokenizer, const std::string& fingerprint);
  // Encodes the documents that the shards do not have yet.
  PreparedData write_shards(const Tokenizer& tokenizer, const std::string& fingerprint);
  void encode(const Tokenizer& tokenizer, ShardPair& shards);
  void add(const EncodedDocument& document, ShardPair& shards);
  // Fills in all fields of PreparedData but the table of files. `were_there`: the shards were in
  // the cache before.
  PreparedData complete(PreparedData data, bool were_there, std::filesystem::path tokenizer_path);
  // Finds, for shards that are in the cache already, what encode() finds: the documents of each
  // file, and hash and source of each held-out document.
  FileTally count_documents(std::vector<HashedSource>& held_out);
  // Returns hash and source of all documents of data.eval.
  std::vector<HashedSource> list_eval_documents();
  [[noreturn]] void fail_changed(const std::string& pointer) const;

  const PreparationRequest& request_;
  const Cache& cache_;
  Journal& journal_;
  int num_threads_;
  DocumentBatches train_;
  std::optional<DocumentBatches> eval_;
  PreparationState state_;
  std::vector<DocumentFile> files_;
};

}  // namespace lmtrain
