// Shards of samples: files that begin with a table of offsets, as MosaicML's streaming (MDS) and
// LightningAI's litdata write them, and the index.json beside them. Such a file is read from front
// to back, one sample at a time. docs/formats/token_files.md describes both.
//
//   MDS      uint32 samples, uint32 offsets[samples + 1], JSON of the columns, samples: for each
//            column without a fixed size a uint32 size, then the bytes of all columns
//   litdata  uint32 items, uint32 offsets[items + 1], items: of the TokensLoader, bare ids
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/id_rows.h"
#include "text/readers.h"

namespace lmtrain {

inline constexpr const char* kShardIndexName = "index.json";

// The index.json in a folder of shards.
struct ShardIndex {
  struct Shard {
    std::string file;               // relative to the folder
    std::string compressed_file{};  // MDS: the same, compressed; one of the two may be missing
    uint64_t samples = 0;
    uint64_t bytes = 0;  // of the file as it was before a compression
  };
  bool is_mds = false;
  std::vector<Shard> shards{};
  // litdata: what each item is ("no_header_tensor:16"); the compression, or empty.
  std::vector<std::string> data_format{};
  std::string compression{};
  bool is_encrypted = false;
};

// Returns the index, or nothing where the file is no index of shards. Throws Error(kData) for an
// index that is damaged or leads out of its folder, Error(kConfig) for shards of another format
// than MDS or in a compression that is not read, and Error(kIo).
std::optional<ShardIndex> read_shard_index(const std::filesystem::path& path);

// What the index.json says of a chunk beside it.
struct LitdataChunk {
  ShardIndex::Shard shard;
  std::string data_format;  // of its items
  std::string compression;
};
// Looks chunks up, and remembers the index that it read last.
class LitdataIndex {
 public:
  // Returns nothing where no index.json lies beside the file, or where it does not list the file.
  // Throws like read_shard_index().
  std::optional<LitdataChunk> chunk(const std::filesystem::path& path);

 private:
  std::filesystem::path folder_;
  bool is_read_ = false;
  std::map<std::string, ShardIndex::Shard> shards_;  // by file
  std::string data_format_;
  std::string compression_;
};

// Opens the text column `column` of an MDS shard: encoding "str". Throws Error(kData) where it is
// missing or of another encoding.
std::unique_ptr<DocumentReader> open_mds(const std::filesystem::path& path,
                                         const std::string& column, uint64_t max_document);

// Finds and opens the columns of ids of an MDS shard: encodings "ndarray" in any form, and "bytes",
// of ids of `id_bytes` (0: 8, as LLM Foundry writes them).
IdColumns find_mds_ids(const std::filesystem::path& path, const std::string& text_field);
std::unique_ptr<IdRows> open_mds_ids(const std::filesystem::path& path,
                                     const std::string& text_field, uint32_t id_bytes,
                                     uint64_t max_document);
// Opens a chunk of litdata. Throws Error(kData) where its items are no bare ids.
std::unique_ptr<IdRows> open_litdata_ids(const std::filesystem::path& path,
                                         const LitdataChunk& chunk, uint64_t max_document);

}  // namespace lmtrain
