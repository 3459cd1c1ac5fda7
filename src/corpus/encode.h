// Text to token ids on all cores, results in the order of the documents, in bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "corpus/corpus.h"
#include "corpus/tokenizer.h"
#include "formats/token_shard.h"

namespace lmtrain {

struct EncodedDocument {
  std::vector<int32_t> ids;
  Hash128 hash;  // of its text
  uint64_t bytes = 0;
  DocumentPlace place;
};

struct DocumentEncoder {
  const Tokenizer& tokenizer;
  bool add_bos = true;
  bool add_eos = true;
  int num_threads = 1;

  // Calls `sink` on the calling thread for each document in order, from `from` on.
  void encode(const Corpus& corpus, const std::string& action,
              const std::function<void(const EncodedDocument&)>& sink,
              const DocumentPlace& from = {}) const;
};

// A token shard with its documents sorted by the hash of their text, ties in the order added:
// written as they come, then copied, so that memory holds 16 bytes a document.
class HashOrderedShardWriter {
 public:
  HashOrderedShardWriter(const std::filesystem::path& path, int64_t vocab_size);
  void add_document(const EncodedDocument& document);
  void finish();

  int64_t num_documents() const { return unordered_.num_documents(); }
  int64_t num_tokens() const { return unordered_.num_tokens(); }

 private:
  std::filesystem::path path_;
  std::filesystem::path unordered_path_;
  int64_t vocab_size_;
  TokenShardWriter unordered_;
  std::vector<uint64_t> hashes_;
};

}  // namespace lmtrain
