// A token shard with its documents sorted by the hash of their text, ties in the order added:
// written as they come, then copied, so that memory holds 16 bytes a document at the end. Like
// TokenShardWriter it can be continued from what sync() told.
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
  HashOrderedShardWriter(const std::filesystem::path& path, int64_t vocab_size);
  HashOrderedShardWriter(const std::filesystem::path& path, int64_t vocab_size,
                         const HashOrderedProgress& progress);
  // Removes the documents and hashes that wait beside the shard, unless sync() was called or the
  // writer has continued another; a shard that is published stays.
  ~HashOrderedShardWriter();
  HashOrderedShardWriter(const HashOrderedShardWriter&) = delete;
  HashOrderedShardWriter& operator=(const HashOrderedShardWriter&) = delete;

  void add_document(const EncodedDocument& document);
  // Syncs what was added and returns how far that is, to continue from.
  HashOrderedProgress sync();
  // Writes the documents in their order, and publishes the shard by rename.
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
