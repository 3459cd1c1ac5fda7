// A token shard, or a token reference to /proc/self/fd/200/tokens.bin. The input is read as it is,
// and with the checksums that its header should have. Every token that it says it has is read.
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstring>

#include "base/hash.h"
#include "formats/token_shard.h"
#include "formats/token_shard_layout.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {
namespace {

constexpr size_t kHeaderBytes = 64;

// Makes a file of 32 ids, with a time that references can name.
void make_token_file() {
  std::array<uint16_t, 32> ids{};
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint16_t>(i);
  const auto path = write_scratch("tokens.bin", {reinterpret_cast<const char*>(ids.data()), 64});
  const std::array<timespec, 2> times = {timespec{1'000'000'000, 0}, {1'000'000'000, 0}};
  require(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0) == 0, "a time is set");
}

template <class Header>
void put(std::string& bytes, Header header) {
  header.header_crc = 0;
  std::memcpy(bytes.data(), &header, sizeof header);
  header.header_crc = crc32c(0, bytes.data(), kShardHeaderCrcOffset);
  std::memcpy(bytes.data(), &header, sizeof header);
}

uint32_t crc_of(std::string_view bytes) { return crc32c(0, bytes.data(), bytes.size()); }

// Returns the bytes with checksums that fit the sizes in the header, as far as these are right.
std::string with_checksums(std::string_view input) {
  std::string bytes(input);
  if (bytes.size() < kHeaderBytes) return bytes;
  const std::string_view rest = std::string_view(bytes).substr(kHeaderBytes);
  if (TokenReference::begins(bytes)) {
    ReferenceHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.table_bytes > rest.size()) return bytes;
    header.version = kReferenceVersion;
    header.table_crc = crc_of(rest.substr(0, header.table_bytes));
    header.index_crc = crc_of(rest.substr(header.table_bytes));
    put(bytes, header);
    return bytes;
  }
  ShardHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.magic = kShardMagic;
  header.version = kShardVersion;
  header.bytes_per_token = shard_bytes_per_token(header.vocab_size);
  const uint64_t tokens = header.num_tokens * header.bytes_per_token;
  if (header.num_tokens <= rest.size() && tokens + shard_padding(tokens) <= rest.size()) {
    header.tokens_crc = crc_of(rest.substr(0, tokens));
    header.index_crc = crc_of(rest.substr(tokens + shard_padding(tokens)));
  }
  put(bytes, header);
  return bytes;
}

void read_all(const TokenShard& shard) {
  int64_t next = 0;
  for (int64_t document = 0; document < shard.num_documents(); ++document) {
    require(shard.document_begin(document) == next, "a document does not follow the one before");
    std::vector<int32_t> ids(static_cast<size_t>(shard.document_size(document)));
    shard.read_tokens(next, ids);
    for (const int32_t id : ids) require(id >= 0 && id < shard.vocab_size(), "an id is too large");
    next = shard.document_end(document);
    (void)shard.raw_bytes(document);
  }
  require(next == shard.num_tokens(), "tokens of no document");
}

}  // namespace

LMTRAIN_FUZZ_TARGET(shard) {
  static const bool is_made = (make_token_file(), true);
  require(is_made, "the token file is there");
  const std::vector<std::string> parts = parts_of(input, 2);
  const std::filesystem::path sums = block_sums_path(scratch_folder() / "x.bin");
  for (const std::string& bytes : {parts[0], with_checksums(parts[0])}) {
    const std::filesystem::path path = write_scratch("x.bin", bytes);
    std::filesystem::remove(sums);
    if (!parts[1].empty()) write_scratch(sums.filename(), parts[1]);
    for (const bool verifies : {false, true}) {
      accepts([&] {
        const TokenShard shard(path, verifies);
        read_all(shard);
        shard.require_unchanged();
      });
    }
  }
}

}  // namespace lmtrain::fuzzing
