#include <cstring>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "formats/token_shard.h"
#include "formats/token_shard_layout.h"

namespace lmtrain {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix) {
  path += suffix;
  return path;
}

// A header as it lies in the file.
std::string_view bytes_of(const ShardHeader& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

}  // namespace

TokenShardWriter::TokenShardWriter(const std::filesystem::path& path, int64_t vocab_size)
    : path_(path),
      temporary_(with_suffix(path, ".tmp")),
      vocab_size_(vocab_size),
      file_(temporary_) {
  if (vocab_size < 1 || static_cast<uint64_t>(vocab_size) > kShardLargestVocabulary) {
    throw Error(ErrorKind::kInternal, str("token shard for a vocabulary of ", vocab_size));
  }
  // Zeros until finish(): a shard cut short is none.
  file_.write(std::string(sizeof(ShardHeader), '\0'));
}

TokenShardWriter::~TokenShardWriter() {
  if (finished_) return;
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void TokenShardWriter::add_document(std::span<const int32_t> ids, uint64_t raw_bytes) {
  const size_t width = shard_bytes_per_token(static_cast<uint64_t>(vocab_size_));
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size_) {
      throw Error(ErrorKind::kData, str(path_.string(), ": document ", num_documents(),
                                        " has the token id ", id, ", outside the vocabulary of ",
                                        vocab_size_, "; it was made with another tokenizer"));
    }
    char bytes[sizeof id];
    std::memcpy(bytes, &id, sizeof id);
    buffer_.append(bytes, width);
    if (buffer_.size() >= kBufferBytes) flush_tokens();
  }
  num_tokens_ += ids.size();
  index_.push_back(num_tokens_);
  index_.push_back(raw_bytes);
}

void TokenShardWriter::flush_tokens() {
  tokens_crc_ = crc32c(tokens_crc_, buffer_.data(), buffer_.size());
  file_.write(buffer_);
  buffer_.clear();
}

void TokenShardWriter::finish() {
  flush_tokens();
  file_.write(std::string(shard_padding(file_.size()), '\0'));
  const std::string_view index(reinterpret_cast<const char*>(index_.data()),
                               index_.size() * sizeof(uint64_t));
  file_.write(index);

  const auto vocab_size = static_cast<uint64_t>(vocab_size_);
  ShardHeader header{.bytes_per_token = shard_bytes_per_token(vocab_size),
                     .vocab_size = vocab_size,
                     .num_documents = index_.size() / 2,
                     .num_tokens = num_tokens_,
                     .index_crc = crc32c(0, index.data(), index.size()),
                     .tokens_crc = tokens_crc_};
  header.header_crc = crc32c(0, &header, kShardHeaderCrcOffset);
  file_.overwrite(0, bytes_of(header));
  file_.finish();
  publish_rename(temporary_, path_);
  finished_ = true;
}

}  // namespace lmtrain
