// A shard whose tokens lie in files that other programs wrote (docs/formats/token_shard.md, second
// part): which files, as they were when it was made, and for each document where in them it is.
// TokenShard reads it like any other shard. Readers may be shared by threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/files/examine.h"
#include "base/files/file.h"
#include "formats/block_sums.h"

namespace lmtrain {

struct ReferencedFile {
  std::filesystem::path path;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  uint64_t begin = 0;  // byte of the first id
  uint64_t num_tokens = 0;
  uint64_t bytes_per_token = 0;  // 1, 2, 4 or 8
  BlockSums sums{};              // of the whole file
};

struct ReferencedDocument {
  uint64_t file = 0;
  uint64_t begin = 0;  // in tokens of the file
  uint64_t num_tokens = 0;
  uint64_t raw_bytes = 0;  // of its text
};

// Writes the reference, and beside it the checksums of the blocks of all files (block_sums.h).
void write_token_reference(const std::filesystem::path& path, int64_t vocab_size,
                           std::span<const ReferencedFile> files,
                           std::span<const ReferencedDocument> documents);

class TokenReference {
 public:
  // Is this what write_token_reference writes?
  static bool begins(std::string_view bytes);
  // Error(kData) unless `shard`, which must stay mapped, is sound and the files are as they were.
  // Where the checksums of their blocks are missing, the tokens are not checked.
  explicit TokenReference(const MappedFile& shard);

  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  // Its first two fields are those of a shard's index.
  const char* index() const { return index_; }
  // Tokens [begin, begin + out.size()) of the shard, which has so many. Ids from 2^31 on become
  // -1. Errors as those of TokenShard::read_tokens.
  void read(int64_t begin, std::span<int32_t> out) const;
  // As TokenShard::require_unchanged.
  void require_unchanged() const;

 private:
  uint64_t entry(int64_t document, int64_t field) const;
  void check_documents() const;
  void open_files(std::string_view table, uint64_t num_files);
  void open_sums();

  struct OpenFile {
    ReferencedFile file;
    MappedFile bytes;
    FileInfo opened;  // as it was then
    BlockCheck blocks{};
  };
  std::filesystem::path path_;
  int64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
  int64_t vocab_size_ = 0;
  const char* index_ = nullptr;
  std::vector<OpenFile> files_;
  // The file to examine next, for require_unchanged().
  std::unique_ptr<std::atomic<size_t>> next_ = std::make_unique<std::atomic<size_t>>(0);
};

// Ids of 1, 2, 4 or 8 bytes; what does not fit becomes -1.
void copy_token_ids(const char* from, uint64_t bytes_per_token, std::span<int32_t> out);

}  // namespace lmtrain
