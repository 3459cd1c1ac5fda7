// A token reference is a shard whose tokens lie in files that other programs wrote
// (docs/formats/token_shard.md, "Tokens that lie elsewhere"). It holds the names of these files,
// their sizes and times when it was made, and the position of each document. TokenShard reads it
// like any other shard. Threads may share a reader.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/examine.h"
#include "base/file.h"
#include "formats/block_sums.h"

namespace lmtrain {

struct ReferencedFile {
  std::filesystem::path path;
  uint64_t size = 0;     // bytes
  int64_t mtime_ns = 0;  // since 1970
  uint64_t begin = 0;    // the byte at which the first id begins
  uint64_t num_tokens = 0;
  uint64_t bytes_per_token = 0;  // 1, 2, 4 or 8
  BlockSums sums{};              // for the whole file
};

struct ReferencedDocument {
  uint64_t file = 0;
  uint64_t begin = 0;  // its first token, counted from the file's first token
  uint64_t num_tokens = 0;
  uint64_t raw_bytes = 0;  // the size of its text
};

// Writes the checksums of the blocks of all files (block_sums.h) beside `path`, then the reference,
// each atomically. Requires absolute paths, complete `sums`, and documents within their files; it
// checks none of this. Throws Error(kIo).
void write_token_reference(const std::filesystem::path& path, int64_t vocab_size,
                           std::span<const ReferencedFile> files,
                           std::span<const ReferencedDocument> documents);

class TokenReference {
 public:
  // Returns whether a file that begins with `bytes` is a token reference.
  static bool begins(std::string_view bytes);
  // Reads `shard`, which must stay mapped, and maps its files. Throws Error(kData): the reference
  // is damaged; a file is missing, or its size or time has changed; the checksums of the blocks are
  // damaged or belong to other files. Throws Error(kIo) when a file cannot be read. Where the file
  // of checksums is missing, read() does not check the tokens.
  explicit TokenReference(const MappedFile& shard);

  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  // Returns the index: kReferenceEntryBytes for each document (token_shard_layout.h). An entry
  // begins with the two fields of a shard's entry.
  const char* index() const { return index_; }
  uint32_t index_crc() const { return index_crc_; }
  // Copies tokens [begin, begin + out.size()) of the shard, which must exist. Ids from 2^31 on
  // become -1; other ids outside the vocabulary pass. Throws Error(kData) and Error(kIo) as
  // TokenShard::read_tokens() does.
  void read(int64_t begin, std::span<int32_t> out) const;
  // Does what TokenShard::require_unchanged() does for the files with the tokens. It does not
  // examine the reference itself.
  void require_unchanged() const;

 private:
  uint64_t entry(int64_t document, int64_t field) const;
  void check_documents() const;
  void open_files(std::string_view table, uint64_t num_files);
  void open_sums();

  struct OpenFile {
    ReferencedFile file;
    MappedFile bytes;
    FileInfo opened;  // from when it was mapped
    BlockCheck blocks{};
  };
  std::filesystem::path path_;
  int64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
  int64_t vocab_size_ = 0;
  const char* index_ = nullptr;
  uint32_t index_crc_ = 0;
  std::vector<OpenFile> files_;
  // The first file that the next require_unchanged() examines.
  std::unique_ptr<std::atomic<size_t>> next_ = std::make_unique<std::atomic<size_t>>(0);
};

// Copies out.size() little-endian unsigned ids of 1, 2, 4 or 8 bytes. Ids from 2^31 on become -1.
void copy_token_ids(const char* from, uint64_t bytes_per_token, std::span<int32_t> out);

}  // namespace lmtrain
