// A token shard (docs/formats/token_shard.md) holds documents as token ids in one memory-mapped
// file, which one writer writes once and publishes by rename.
//
//   header   64 bytes: magic, version, bytes per token, vocabulary size, counts, CRCs
//   tokens   uint16 when the vocabulary has at most 65536 tokens, else uint32
//   index    per document: end offset in tokens (uint64), raw bytes of the text (uint64)
//
// Threads may share a TokenShard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/examine.h"
#include "base/file.h"
#include "formats/block_sums.h"
#include "formats/token_reference.h"

namespace lmtrain {

// The part of an unfinished shard that sync() has put on disk.
struct ShardProgress {
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  uint32_t tokens_crc = 0;
  FileSum tokens;
  FileSum index;
};

class TokenShardWriter {
 public:
  // Begins a shard. Until finish() it is in PATH.tmp and PATH.index.tmp. Throws Error(kInternal)
  // unless 1 <= vocab_size <= 2^31.
  TokenShardWriter(const std::filesystem::path& path, int64_t vocab_size);
  // Continues after the documents of `progress`, which sync() returned in this process or another.
  // If the shard was finished since, PATH becomes PATH.tmp again, and is missing until finish().
  // Throws Error(kData) or Error(kIo) when the files do not have these documents.
  TokenShardWriter(const std::filesystem::path& path, int64_t vocab_size,
                   const ShardProgress& progress);
  // Removes PATH.tmp and PATH.index.tmp, unless sync() was called or the writer continued a shard.
  // A shard that finish() has published stays.
  ~TokenShardWriter();
  TokenShardWriter(const TokenShardWriter&) = delete;
  TokenShardWriter& operator=(const TokenShardWriter&) = delete;

  // Adds a document: its `ids`, with BOS and EOS as configured, and the size of its text in bytes.
  // Throws Error(kData) for an id outside the vocabulary, and Error(kIo).
  void add_document(std::span<const int32_t> ids, uint64_t raw_bytes);
  // Puts all documents on disk. Returns the progress from which another writer can continue.
  ShardProgress sync();
  // Appends the index, writes the header, syncs, reads the file back, writes the checksums of its
  // blocks to PATH.sums (block_sums.h), and renames it to PATH. PATH.index.tmp stays if sync() was
  // called or the writer continued a shard. Throws Error(kIo), also when the tokens that are read
  // back differ from what was written; header and index are not compared. Call it once, as the last
  // function.
  void finish();

  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }

 private:
  void sum_what_was_written() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::filesystem::path index_path_;
  int64_t vocab_size_;
  BufferedFile tokens_;
  BufferedFile index_;  // end, raw bytes of each document
  bool keeps_files_ = false;
  bool finished_ = false;
  std::string packed_;       // ids of one document as they are in the file
  uint32_t tokens_crc_ = 0;  // over all tokens
  int64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
};

class TokenShard {
 public:
  // Maps the file. Throws Error(kData) that names the file: header, index and sizes do not agree;
  // the checksums of the blocks (PATH.sums) are damaged or belong to another shard. Without
  // PATH.sums, read_tokens() compares no checksums. `verify_tokens` also checks the CRC over all
  // tokens and that each id is in the vocabulary. For a token reference (token_reference.h) it
  // reads no tokens, and compares size and time of the files. Throws Error(kIo) when a file cannot
  // be read.
  TokenShard(const std::filesystem::path& path, bool verify_tokens);
  // Writes PATH.sums where it is missing, from the tokens that are there now; so the constructor
  // must have verified them. This object does not use the new file. Throws Error(kData) for a token
  // reference without PATH.sums, whose data must be prepared again, and Error(kIo).
  void write_missing_block_sums() const;

  // Returns whether the shard is a token reference (token_reference.h).
  bool is_reference() const { return reference_.has_value(); }
  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  uint64_t raw_bytes(int64_t document) const { return index_entry(document, 1); }
  int64_t document_begin(int64_t document) const {  // in tokens
    return document == 0 ? 0 : document_end(document - 1);
  }
  // Throws Error(kData) for an end outside the shard: the index was written to since it was opened.
  int64_t document_end(int64_t document) const;
  int64_t document_size(int64_t document) const {
    return document_end(document) - document_begin(document);
  }
  // Returns the targets of one pass: a document of n tokens has n - 1, an empty one has none. Reads
  // the whole index.
  int64_t count_targets() const;
  // Copies tokens [begin, begin + out.size()) of the shard. Throws Error(kIo) when the file system
  // refuses. Throws Error(kInternal) for tokens that the shard does not have; the functions above
  // do so for a document. Throws Error(kData) that names the file where:
  //   a block does not have its checksum (BlockCheck::holds() says which blocks are compared)
  //   an id is outside the vocabulary
  //   a file was cut short since it was opened
  void read_tokens(int64_t begin, std::span<int32_t> out) const;
  // Throws Error(kData) when the shard was written to since it was opened, by its size and time.
  // For a token reference it also throws when one of its files was written to since the reference
  // was made. Each call examines up to 64 files, and the next call continues there. A file that was
  // removed, or replaced by another, is no error: the old one stays mapped.
  void require_unchanged() const;
  // Call it when a request contradicts the index. Throws Error(kData) where the index was written
  // to since it was opened, else Error(kInternal) with `problem`.
  [[noreturn]] void fail_request(const std::string& problem) const;

 private:
  void open_own(bool verify_tokens);
  void open_reference();
  uint64_t index_entry(int64_t document, int64_t field) const;
  void check_index() const;
  void check_tokens(uint32_t expected_crc) const;
  void check_ids(int64_t begin, std::span<const int32_t> ids) const;

  MappedFile file_;
  int64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
  int64_t vocab_size_ = 0;
  int64_t bytes_per_token_ = 0;
  const char* tokens_ = nullptr;
  const char* index_ = nullptr;
  int64_t index_entry_bytes_ = 0;
  uint32_t index_crc_ = 0;
  FileInfo opened_;                          // as it was then
  std::optional<TokenReference> reference_;  // where the tokens are not in this file
  BlockCheck blocks_;
};

// The documents of a shard come from the entries of data.train. A list of SourceRuns, ascending by
// document, says which entry; the first begins at document 0.

// Documents from `first_document` to before the next run's `first_document` come from
// data.train[source].
struct SourceRun {
  int64_t first_document = 0;
  int32_t source = 0;
};

}  // namespace lmtrain
