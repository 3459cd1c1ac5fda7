// The passes over the text for one request: count it, choose what is held out, train a tokenizer
// where none is given, tokenize. What a pass found is in the journal, and in the cache when it is
// done.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/hash.h"
#include "config/config.h"
#include "corpus/cache.h"
#include "corpus/journal.h"
#include "corpus/prepare.h"
#include "corpus/shard_pair.h"
#include "corpus/sources/corpus.h"
#include "corpus/tokenizer/tokenizer.h"

namespace lmtrain {

// All that decides the result, with the files found but not read.
struct PreparationRequest {
  TokenizerConfig tokenizer;
  std::optional<Tokenizer> given_tokenizer;
  std::filesystem::path given_tokenizer_path;
  Corpus train;
  std::optional<Corpus> eval;
  double eval_fraction = 0;  // 0 when `eval` is given
};

// A key of the request that needs no text to be read: a hash of its settings and of the path, size
// and time of each file.
std::string index_key(const PreparationRequest& request);

class Preparation {
 public:
  // `request`, `cache` and `journal` must outlive the preparation.
  Preparation(const PreparationRequest& request, const Cache& cache, Journal& journal,
              int num_threads);
  // Makes all passes that the cache does not spare. Error(kData) for text that is empty or changes
  // meanwhile; throws StopRequested on a signal. Call it once.
  PreparedData run();
  // After run(): the files whose documents are in the train shard.
  const std::vector<DocumentFile>& files() const { return files_; }

 private:
  void scan_eval();
  void scan();
  void choose_held_out();
  Tokenizer obtain_tokenizer(std::filesystem::path& path) const;
  std::string train_on_sample() const;
  std::string fingerprint(const Tokenizer& tokenizer) const;
  PreparedData write_shards(const Tokenizer& tokenizer, const std::string& fingerprint);
  ShardPair open_shards(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                        const std::string& fingerprint);
  void encode(const Tokenizer& tokenizer, ShardPair& shards);
  // The same tally as encode() makes, for shards that are there already.
  FileTally count_documents() const;
  [[noreturn]] void fail_changed(const std::string& pointer) const;

  const PreparationRequest& request_;
  const Cache& cache_;
  Journal& journal_;
  int num_threads_;
  PreparationState state_;
  std::vector<DocumentFile> files_;
};

}  // namespace lmtrain
