// Writes a token shard whose documents are sorted by the hash of their text, ties in the order
// added. Writes documents first to PATH.unordered, as they come, and their hashes to PATH.hashes;
// finish() copies them in hash order, with 28 bytes of memory for each document. Like
// TokenShardWriter it can be continued from the progress that sync() returned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "formats/token_shard.h"
#include "prepare/encode.h"

namespace lmtrain {

// A document of an evaluation shard: the text_hash() of its text, and the index of its entry in
// data.eval or data.train.
struct HashedSource {
  uint64_t hash = 0;
  int64_t source = 0;
};
// Returns the order of the shard: indices into `added`, which has the documents in the order added.
std::vector<size_t> hash_order(const std::vector<HashedSource>& added);
// Returns the sources of `added` in the order of the shard.
std::vector<int32_t> sources_in_hash_order(const std::vector<HashedSource>& added);

struct HashOrderedProgress {
  ShardProgress shard;
  FileSum hashes;
};

class HashOrderedShardWriter {
 public:
  // Begins a shard at `path`. All calls throw the errors of TokenShardWriter.
  HashOrderedShardWriter(const std::filesystem::path& path, int64_t vocab_size);
  // Continues the shard of `progress`. Throws Error(kData) or Error(kIo) where what was synced is
  // missing or changed.
  HashOrderedShardWriter(const std::filesystem::path& path, int64_t vocab_size,
                         const HashOrderedProgress& progress);
  // Removes PATH.unordered and PATH.hashes, unless sync() was called or this writer continued a
  // shard. A published shard stays.
  ~HashOrderedShardWriter();
  HashOrderedShardWriter(const HashOrderedShardWriter&) = delete;
  HashOrderedShardWriter& operator=(const HashOrderedShardWriter&) = delete;

  void add_document(const EncodedDocument& document, int32_t source);
  // Syncs what was added and returns the progress from which a writer can continue.
  HashOrderedProgress sync();
  // Writes the documents in hash order, and publishes the shard by rename. Returns the source of
  // each document in that order. Call it once.
  std::vector<int32_t> finish();

  int64_t num_documents() const { return unordered_.num_documents(); }
  int64_t num_tokens() const { return unordered_.num_tokens(); }

 private:
  std::filesystem::path path_;
  std::filesystem::path unordered_path_;
  std::filesystem::path hashes_path_;
  int64_t vocab_size_;
  TokenShardWriter unordered_;
  BufferedFile hashes_;
  bool keeps_files_ = false;
};

}  // namespace lmtrain
