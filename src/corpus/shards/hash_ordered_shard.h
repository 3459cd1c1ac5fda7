// Writes a token shard whose documents are sorted by the hash of their text, ties in the order
// added. Documents are first written as they come, to PATH.unordered, and their hashes to
// PATH.hashes; finish() copies them in their order, with 16 bytes of memory for each document. Like
// TokenShardWriter it can be continued from the progress that sync() returned.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/files/buffered_file.h"
#include "corpus/shards/encode.h"
#include "formats/token_shard.h"

namespace lmtrain {

struct HashOrderedProgress {
  ShardProgress shard;
  FileSum hashes;
};

class HashOrderedShardWriter {
 public:
  // Begins a shard at `path`. Throws the errors of TokenShardWriter, as all calls do.
  HashOrderedShardWriter(const std::filesystem::path& path, int64_t vocab_size);
  // Continues the shard of `progress`. Throws Error(kData) or Error(kIo) where what was synced is
  // missing or changed.
  HashOrderedShardWriter(const std::filesystem::path& path, int64_t vocab_size,
                         const HashOrderedProgress& progress);
  // Removes the files with the documents and hashes beside the shard, unless sync() was called or
  // this writer continues another; a shard that is published stays.
  ~HashOrderedShardWriter();
  HashOrderedShardWriter(const HashOrderedShardWriter&) = delete;
  HashOrderedShardWriter& operator=(const HashOrderedShardWriter&) = delete;

  void add_document(const EncodedDocument& document);
  // Syncs what was added and returns the progress from which a writer can continue.
  HashOrderedProgress sync();
  // Writes the documents in their order, and publishes the shard by rename. Call it once.
  void finish();

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
