// A Preparation makes the passes over the text for one request. These passes count the text, choose
// what is held out, train a tokenizer where none is given, and tokenize. The journal keeps what a
// pass has found so far, and the cache what a finished preparation has made.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/hash.h"
#include "config/config.h"
#include "corpus/cache.h"
#include "corpus/division.h"
#include "corpus/journal.h"
#include "corpus/prepare.h"
#include "corpus/shard_pair.h"
#include "corpus/sources/corpus.h"
#include "corpus/tokenizer/tokenizer.h"

namespace lmtrain {

// A request holds everything that decides the result; its files are listed, but not read yet, and
// the format of each is decided (decide_formats) before Preparation::run().
struct PreparationRequest {
  TokenizerConfig tokenizer;
  bool adds_bos = true;  // to each document
  bool adds_eos = true;
  std::optional<Tokenizer> given_tokenizer;
  std::filesystem::path given_tokenizer_path;
  Corpus train;
  std::optional<Corpus> eval;
  double eval_fraction = 0;    // 0 when `eval` is given
  bool has_eval_sets = false;  // PreparedData::eval_sources is wanted
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
  // and shards into the cache; the caller stores the index (Cache::store_index) and removes the
  // journal. Throws Error(kData) where the files hold no document or their text changes meanwhile,
  // the errors of Corpus::for_each and of train_tokenizer. Call it once.
  PreparedData run();
  // Does the same together with others: call it in all of them, in place of run(). Returns nothing
  // where this process does not keep the data, whose cache and journal then stay as they are; it
  // has only helped the others. Throws also the errors of PreparationDivision and BlockExchange.
  std::optional<PreparedData> run(PreparationDivision& division);
  // Returns, after run(), the files whose documents are in the train shard.
  const std::vector<DocumentFile>& files() const { return files_; }

 private:
  // Makes the passes before the encoding, and returns the tokenizer with its path.
  Tokenizer read_text(std::filesystem::path& tokenizer_path);
  void scan_eval();
  void scan();
  void choose_held_out();
  Tokenizer obtain_tokenizer(std::filesystem::path& path) const;
  Tokenizer train(const std::filesystem::path& path) const;
  std::vector<TokenizerFile> train_on_sample() const;
  std::string fingerprint(const Tokenizer& tokenizer) const;
  ShardPair open_shards(const Tokenizer& tokenizer, const std::string& fingerprint);
  PreparedData finish_shards(ShardPair& shards, const std::string& fingerprint);
  // Encodes from `start` on. `shards` take the documents that they do not have yet; null: this
  // process writes none. Null too is `exchange` where it encodes alone.
  void encode(const Tokenizer& tokenizer, TokensPlace start, ShardPair* shards,
              BlockExchange* exchange);
  void add(const EncodedDocument& document, ShardPair& shards);
  // Brings the counts of shards that were there already, or are finished now, up to all that
  // PreparedData has but the table of files.
  PreparedData complete(PreparedData data, bool were_there, std::filesystem::path tokenizer_path);
  // Counts the files' documents, and notes the sources of those held out, like encode(), for shards
  // that are there already.
  FileTally count_documents(std::vector<HashedSource>& held_out) const;
  // Notes the sources of all documents of data.eval.
  std::vector<HashedSource> list_eval_documents() const;
  bool is_save_due() const { return keeps_ && journal_.due(); }
  [[noreturn]] void fail_changed(const std::string& pointer) const;

  const PreparationRequest& request_;
  const Cache& cache_;
  Journal& journal_;
  int num_threads_;
  bool keeps_ = true;  // what it finds: in cache and journal
  PreparationState state_;
  std::vector<DocumentFile> files_;
};

}  // namespace lmtrain
