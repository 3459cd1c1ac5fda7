// Reads shards of samples, which MosaicML's streaming (MDS) and LightningAI's litdata write: files
// that begin with a table of offsets, and the index.json beside them. A file is read from front to
// back, one sample at a time. docs/formats/token_files.md describes both.
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
  };
  bool is_mds = false;
  std::vector<Shard> shards{};
  // For litdata: the formats of an item's parts ("no_header_tensor:16"), and "zstd" or "".
  std::vector<std::string> data_format{};
  std::string compression{};
  bool is_encrypted = false;
};

// Returns the index; nothing where the file is no index of shards. Throws Error(kData) for an index
// that is damaged or leads out of its folder, and Error(kIo). Throws Error(kConfig) for what is not
// read: another version or format, a compression, encryption.
std::optional<ShardIndex> read_shard_index(const std::filesystem::path& path);

// A chunk of litdata, as the index.json beside it describes it.
struct LitdataChunk {
  ShardIndex::Shard shard;
  std::string data_format;  // of its items
  std::string compression;
};
// Looks chunks up, and keeps the index of the last folder.
class LitdataIndex {
 public:
  // Returns nothing where no index.json of litdata beside the file lists it. Throws like
  // read_shard_index().
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

// These find and open the columns of ids of an MDS shard: encoding "ndarray", of integers and one
// axis, and "bytes", with ids of `id_bytes` bytes (0: 8, as LLM Foundry writes them).
IdColumns find_mds_ids(const std::filesystem::path& path, const std::string& text_field);
std::unique_ptr<IdRows> open_mds_ids(const std::filesystem::path& path,
                                     const std::string& text_field, uint32_t id_bytes,
                                     uint64_t max_document);
// Opens a chunk of litdata. Throws Error(kData) where its items are not ids alone.
std::unique_ptr<IdRows> open_litdata_ids(const std::filesystem::path& path,
                                         const LitdataChunk& chunk, uint64_t max_document);

}  // namespace lmtrain
