// A token shard (docs/formats/token_shard.md): documents as token ids in one memory-mapped file, written once and
// published by rename.
//
//   header   64 bytes: magic, version, bytes per token, vocabulary size, counts, CRCs
//   index    per document: end offset in tokens (uint64), raw bytes of the text (uint64)
//   tokens   uint16 when the vocabulary has at most 65536 pieces, else uint32
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace lmtrain {

class TokenShardWriter {
 public:
  TokenShardWriter(const std::filesystem::path& path, int64_t vocab_size);
  // `ids` with BOS and EOS as configured; `raw_bytes` of the document's text.
  void add_document(std::span<const int32_t> ids, uint64_t raw_bytes);
  // Writes index and header, syncs, renames into place.
  void finish();

  int64_t num_documents() const { return static_cast<int64_t>(ends_.size()); }
  int64_t num_tokens() const { return static_cast<int64_t>(num_tokens_); }

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int64_t vocab_size_;
  FileWriter tokens_;
  std::vector<uint64_t> ends_;
  std::vector<uint64_t> raw_bytes_;
  uint64_t num_tokens_ = 0;
};

class TokenShard {
 public:
  // Error(kData) naming file and offset unless header, index and sizes agree. `verify_tokens` also checks the CRC over
  // all tokens and that each id is in the vocabulary.
  TokenShard(const std::filesystem::path& path, bool verify_tokens);

  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  uint64_t raw_bytes(int64_t document) const;
  int64_t document_begin(int64_t document) const;  // in tokens
  int64_t document_end(int64_t document) const;
  int64_t document_size(int64_t document) const { return document_end(document) - document_begin(document); }
  // Copies tokens [begin, begin + out.size()) of the shard.
  void read_tokens(int64_t begin, std::span<int32_t> out) const;

 private:
  MappedFile file_;
  int64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
  int64_t vocab_size_ = 0;
  int bytes_per_token_ = 2;
  const char* index_ = nullptr;
  const char* tokens_ = nullptr;
};

}  // namespace lmtrain
