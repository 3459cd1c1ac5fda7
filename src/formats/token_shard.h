// A token shard (docs/formats/token_shard.md): documents as token ids in one memory-mapped file,
// written once and published by rename.
//
//   header   64 bytes: magic, version, bytes per token, vocabulary size, counts, CRCs
//   tokens   uint16 when the vocabulary has at most 65536 pieces, else uint32
//   index    per document: end offset in tokens (uint64), raw bytes of the text (uint64)
//
// The tokens come first so that they stream to the file while documents arrive; the index waits in
// a file beside it, so that memory does not grow. A reader may be shared by threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/buffered_file.h"
#include "base/files/file.h"
#include "formats/block_sums.h"
#include "formats/token_reference.h"

namespace lmtrain {

// The part of a shard under way that is on disk for good.
struct ShardProgress {
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  uint32_t tokens_crc = 0;
  FileSum tokens;
  FileSum index;
};

class TokenShardWriter {
 public:
  // Error(kInternal) unless 1 <= vocab_size <= 2^31.
  TokenShardWriter(const std::filesystem::path& path, int64_t vocab_size);
  // Goes on from what sync() told, in this process or another, even if the shard was finished
  // since. Error(kData) or Error(kIo) when that is not there.
  TokenShardWriter(const std::filesystem::path& path, int64_t vocab_size,
                   const ShardProgress& progress);
  // Without finish() nothing is left behind, unless sync() was called.
  ~TokenShardWriter();
  TokenShardWriter(const TokenShardWriter&) = delete;
  TokenShardWriter& operator=(const TokenShardWriter&) = delete;

  // `ids` with BOS and EOS as configured; `raw_bytes` of the document's text. Error(kData) for an
  // id outside the vocabulary.
  void add_document(std::span<const int32_t> ids, uint64_t raw_bytes);
  ShardProgress sync();
  // Appends index and header, syncs, reads all of it back for the checksums of its blocks
  // (block_sums.h), renames into place. The file of the index stays if sync() was called.
  // Error(kIo) when other bytes come back than were written.
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
  std::string packed_;       // ids of one document as they lie in the file
  uint32_t tokens_crc_ = 0;  // of all tokens
  int64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
};

class TokenShard {
 public:
  // Error(kData) naming file and offset unless header, index and sizes agree. `verify_tokens` also
  // checks the CRC over all tokens and that each id is in the vocabulary; tokens that lie in files
  // of others (token_reference.h) are not read, and size and time of the files are compared.
  TokenShard(const std::filesystem::path& path, bool verify_tokens);
  // Writes the checksums of the blocks where they are missing. Requires verify_tokens. Error(kData)
  // when the tokens lie in files of others, which must be scanned again.
  void write_missing_block_sums() const;

  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  uint64_t raw_bytes(int64_t document) const { return index_entry(document, 1); }
  int64_t document_begin(int64_t document) const {  // in tokens
    return document == 0 ? 0 : document_end(document - 1);
  }
  int64_t document_end(int64_t document) const {
    return static_cast<int64_t>(index_entry(document, 0));
  }
  int64_t document_size(int64_t document) const {
    return document_end(document) - document_begin(document);
  }
  // Copies tokens [begin, begin + out.size()) of the shard. Where it has checksums of its blocks,
  // Error(kData) with file and byte when those read do not hold (BlockCheck says how often they are
  // looked at). Error(kData) for an id outside the vocabulary, and for a file that was cut short
  // since it was opened; Error(kIo) when the file system refuses.
  void read_tokens(int64_t begin, std::span<int32_t> out) const;
  // Where the tokens lie in files of others: Error(kData) naming one that was written to since this
  // shard was made, by its size and time. Up to 64 files a call, in turn.
  void require_unchanged() const;

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
  std::optional<TokenReference> reference_;  // where the tokens are not in this file
  BlockCheck blocks_;
};

}  // namespace lmtrain
