// Documents that are ids already. The first byte says in which container: Parquet, Arrow, MDS,
// litdata. MDS is read as text too.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/tables.h"
#include "text/id_rows.h"
#include "text/sample_shard.h"

namespace lmtrain::fuzzing {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 20;

void read_ids(IdReader reader) {
  constexpr int kMostDocuments = 20'000;
  IdDocument document;
  int64_t last = -1;
  for (int i = 0; i < kMostDocuments && reader.next(document); ++i) {
    require(document.row > last, "rows do not ascend");
    require(!document.ids.empty(), "a document without ids");
    require(document.ids.size() <= kMostBytes / sizeof(int32_t), "a row above the limit");
    require(document.first >= 0, "a place before the row");
    last = document.row;
  }
}

// The index would say the number of its items, which the file has first.
void read_litdata(const std::filesystem::path& path, std::string_view bytes) {
  uint32_t count = 0;
  std::memcpy(&count, bytes.data(), std::min(bytes.size(), sizeof count));
  for (const char* format : {"no_header_tensor:16", "no_header_numpy:5", "str"}) {
    LitdataChunk chunk;
    chunk.shard.file = "x.bin";
    chunk.shard.samples = count;
    chunk.data_format = format;
    accepts([&] { read_ids({path, open_litdata_ids(path, chunk, kMostBytes), kMostBytes}); });
  }
}

}  // namespace

LMTRAIN_FUZZ_TARGET(id_tables) {
  if (input.empty()) return;
  constexpr std::array<const char*, 4> kNames = {"x.parquet", "x.arrow", "x.mds", "x.bin"};
  constexpr std::array<const char*, 4> kContainers = {"parquet", "arrow", "mds", "litdata"};
  const size_t choice = static_cast<uint8_t>(input.front()) % kNames.size();
  input.remove_prefix(1);
  const std::filesystem::path path = write_scratch(kNames[choice], input);
  const std::string container = kContainers[choice];
  if (container == "litdata") return read_litdata(path, input);
  IdFiles files;
  accepts([&] { read_ids(files.open(path, container, "text", 0, kMostBytes)); });
  if (container == "mds") read_documents(path, container);
}

}  // namespace lmtrain::fuzzing
