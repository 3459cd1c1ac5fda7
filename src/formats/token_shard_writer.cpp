#include <algorithm>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/hash.h"
#include "base/text.h"
#include "formats/token_shard.h"
#include "formats/token_shard_layout.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// The header is zeros until finish(), so that no reader takes an unfinished shard.
const std::string& no_header() {
  static const std::string kZeros(sizeof(ShardHeader), '\0');
  return kZeros;
}

// Takes back what finish() did to the file of the tokens.
const fs::path& unfinished(const fs::path& temporary, const fs::path& path) {
  if (!is_there(temporary) && is_there(path)) publish_rename(path, temporary);
  require_there(temporary);
  overwrite_file(temporary, 0, no_header());
  return temporary;
}

template <class Stored>
void pack(std::span<const int32_t> ids, std::string& bytes) {
  bytes.resize(ids.size() * sizeof(Stored));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto stored = static_cast<Stored>(ids[i]);
    std::memcpy(bytes.data() + i * sizeof(Stored), &stored, sizeof stored);
  }
}

int64_t require_vocabulary(int64_t vocab_size) {
  if (vocab_size < 1 || static_cast<uint64_t>(vocab_size) > kShardLargestVocabulary) {
    throw Error(ErrorKind::kInternal, str("token shard for a vocabulary of ", vocab_size));
  }
  return vocab_size;
}

}  // namespace

TokenShardWriter::TokenShardWriter(const fs::path& path, int64_t vocab_size)
    : path_(path),
      temporary_(with_suffix(path, ".tmp")),
      index_path_(with_suffix(path, ".index.tmp")),
      vocab_size_(require_vocabulary(vocab_size)),
      tokens_(temporary_),
      index_(index_path_) {
  tokens_.write(no_header());
}

TokenShardWriter::TokenShardWriter(const fs::path& path, int64_t vocab_size,
                                   const ShardProgress& progress)
    : path_(path),
      temporary_(with_suffix(path, ".tmp")),
      index_path_(with_suffix(path, ".index.tmp")),
      vocab_size_(require_vocabulary(vocab_size)),
      tokens_(unfinished(temporary_, path_), progress.tokens),
      index_(index_path_, progress.index),
      keeps_files_(true),
      tokens_crc_(progress.tokens_crc),
      num_documents_(progress.num_documents),
      num_tokens_(progress.num_tokens) {}

TokenShardWriter::~TokenShardWriter() {
  if (keeps_files_) return;
  std::error_code ignored;
  fs::remove(index_path_, ignored);
  if (!finished_) fs::remove(temporary_, ignored);
}

void TokenShardWriter::add_document(std::span<const int32_t> ids, uint64_t raw_bytes) {
  const auto wrong =
      std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id < 0 || id >= vocab_size_; });
  if (wrong != ids.end()) {
    throw Error(ErrorKind::kData, str(shown(path_), ": document ", num_documents_,
                                      " has the token id ", *wrong, ", outside the vocabulary of ",
                                      vocab_size_, "; it was made with another tokenizer"));
  }
  if (shard_bytes_per_token(static_cast<uint64_t>(vocab_size_)) == sizeof(uint16_t)) {
    pack<uint16_t>(ids, packed_);
  } else {
    pack<uint32_t>(ids, packed_);
  }
  tokens_crc_ = crc32c(tokens_crc_, packed_.data(), packed_.size());
  tokens_.write(packed_);
  num_tokens_ += static_cast<int64_t>(ids.size());
  ++num_documents_;
  const uint64_t entry[] = {static_cast<uint64_t>(num_tokens_), raw_bytes};
  static_assert(sizeof entry == kShardIndexEntryBytes);
  index_.write({reinterpret_cast<const char*>(entry), sizeof entry});
}

ShardProgress TokenShardWriter::sync() {
  keeps_files_ = true;
  return {num_documents_, num_tokens_, tokens_crc_, tokens_.sync(), index_.sync()};
}

// The tokens come first in the file, so that they stream to it while documents arrive. The index
// waits in a file of its own, so that memory does not grow.
void TokenShardWriter::finish() {
  tokens_.write(std::string(shard_padding(tokens_.size()), '\0'));
  index_.finish();
  uint32_t index_crc = 0;
  read_chunks(index_path_, [&](std::string_view chunk) {
    index_crc = crc32c(index_crc, chunk.data(), chunk.size());
    tokens_.write(chunk);
  });
  tokens_.flush();
  const auto vocab_size = static_cast<uint64_t>(vocab_size_);
  ShardHeader header{.bytes_per_token = shard_bytes_per_token(vocab_size),
                     .vocab_size = vocab_size,
                     .num_documents = static_cast<uint64_t>(num_documents_),
                     .num_tokens = static_cast<uint64_t>(num_tokens_),
                     .index_crc = index_crc,
                     .tokens_crc = tokens_crc_};
  header.header_crc = crc32c(0, &header, kShardHeaderCrcOffset);
  tokens_.file().overwrite(0, object_bytes(header));
  tokens_.finish();
  sum_what_was_written();
  publish_rename(temporary_, path_);
  finished_ = true;
}

void TokenShardWriter::sum_what_was_written() const {
  const MappedFile written(temporary_);
  const auto token_bytes =
      static_cast<size_t>(num_tokens_) * shard_bytes_per_token(static_cast<uint64_t>(vocab_size_));
  const std::string_view bytes = written.bytes();
  if (bytes.size() < sizeof(ShardHeader) + token_bytes ||
      crc32c(0, bytes.data() + sizeof(ShardHeader), token_bytes) != tokens_crc_) {
    throw Error(ErrorKind::kIo, str(shown(temporary_),
                                    ": other bytes are read than were written; check the disk and "
                                    "the memory of this machine"));
  }
  write_block_sums(block_sums_path(path_), {sum_blocks(bytes)});
}

}  // namespace lmtrain
