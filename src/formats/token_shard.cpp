#include "formats/token_shard.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/hash.h"
#include "base/lost_pages.h"
#include "base/text.h"
#include "formats/token_shard_layout.h"

namespace lmtrain {
namespace {

[[noreturn]] void fail(const MappedFile& file, const std::string& what) {
  throw Error(ErrorKind::kData, str(shown(file.path()), ": ", what,
                                    "; the token shard is damaged: delete it and prepare the data "
                                    "again"));
}

ShardHeader read_header(const MappedFile& file) {
  const std::string_view bytes = file.bytes();
  ShardHeader header;
  if (bytes.size() < sizeof header) {
    fail(file, str("has ", bytes.size(), " bytes, fewer than its header of ", sizeof header));
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kShardMagic) fail(file, "does not begin with LMTSHARD at byte 0");
  if (header.header_crc != crc32c(0, bytes.data(), kShardHeaderCrcOffset)) {
    fail(file, str("the header's checksum at byte ", kShardHeaderCrcOffset, " does not hold"));
  }
  if (header.version != kShardVersion) {
    throw Error(ErrorKind::kData, str(shown(file.path()), ": is a token shard of version ",
                                      header.version, ", this lmtrain reads version ",
                                      kShardVersion, "; delete it and prepare the data again"));
  }
  const bool sound = header.vocab_size >= 1 && header.vocab_size <= kShardLargestVocabulary &&
                     header.bytes_per_token == shard_bytes_per_token(header.vocab_size) &&
                     header.reserved == decltype(header.reserved){};
  if (!sound) fail(file, "the fields of the header contradict each other");
  return header;
}

}  // namespace

TokenShard::TokenShard(const std::filesystem::path& path, bool verify_tokens)
    : file_(path), opened_(examine(path)) {
  survive_lost_pages(file_);
  if (TokenReference::begins(file_.bytes())) {
    open_reference();
  } else {
    open_own(verify_tokens);
  }
  require_whole(file_);
}

void TokenShard::write_missing_block_sums() const {
  const std::filesystem::path path = block_sums_path(file_.path());
  if (is_there(path)) return;
  if (reference_) {
    throw Error(ErrorKind::kData, str(shown(path), " is missing; prepare the data again"));
  }
  const auto sums = sum_blocks(file_.bytes());
  require_whole(file_);
  write_block_sums(path, {sums});
}

void TokenShard::open_reference() {
  reference_.emplace(file_);
  num_documents_ = reference_->num_documents();
  num_tokens_ = reference_->num_tokens();
  vocab_size_ = reference_->vocab_size();
  index_ = reference_->index();
  index_entry_bytes_ = static_cast<int64_t>(kReferenceEntryBytes);
  index_crc_ = reference_->index_crc();
}

void TokenShard::open_own(bool verify_tokens) {
  const ShardHeader header = read_header(file_);
  const uint64_t size = file_.bytes().size();
  // Counts above the file's own size are wrong and would overflow the sums below.
  if (header.num_tokens > size || header.num_documents > size) {
    fail(file_, str("the counts of the header, ", header.num_tokens, " tokens and ",
                    header.num_documents, " documents, do not fit into ", size, " bytes"));
  }
  const uint64_t tokens_end = sizeof header + header.num_tokens * header.bytes_per_token;
  const uint64_t index_begin = tokens_end + shard_padding(tokens_end);
  const uint64_t index_bytes = header.num_documents * kShardIndexEntryBytes;
  if (index_begin + index_bytes != size) {
    fail(file_, str("has ", size, " bytes, its header describes ", index_begin + index_bytes));
  }
  num_documents_ = static_cast<int64_t>(header.num_documents);
  num_tokens_ = static_cast<int64_t>(header.num_tokens);
  vocab_size_ = static_cast<int64_t>(header.vocab_size);
  bytes_per_token_ = header.bytes_per_token;
  tokens_ = file_.bytes().data() + sizeof header;
  index_ = file_.bytes().data() + index_begin;
  index_entry_bytes_ = static_cast<int64_t>(kShardIndexEntryBytes);
  index_crc_ = header.index_crc;

  const std::string_view padding = file_.bytes().substr(tokens_end, index_begin - tokens_end);
  if (padding.find_first_not_of('\0') != std::string_view::npos) {
    fail(file_, str("the padding at byte ", tokens_end, " is not zero"));
  }
  if (crc32c(0, index_, index_bytes) != header.index_crc) {
    fail(file_, str("the checksum of the index, from byte ", index_begin, " on, does not hold"));
  }
  check_index();
  if (verify_tokens) check_tokens(header.tokens_crc);
  const std::filesystem::path sums_path = block_sums_path(file_.path());
  if (!is_there(sums_path)) return;
  std::vector<BlockSums> sums = read_block_sums(sums_path);
  if (sums.size() != 1 || sums[0].size() != num_sum_blocks(size))
    fail(file_, str(shown(sums_path), " has checksums of another shard"));
  // The tokens are right, so the checksums are of another shard with the same number of blocks.
  if (verify_tokens && sum_blocks(file_.bytes()) != sums[0])
    fail(file_, str(shown(sums_path), " has checksums of another shard"));
  blocks_ = BlockCheck(std::move(sums[0]));
}

void TokenShard::check_index() const {
  uint64_t previous = 0;
  for (int64_t document = 0; document < num_documents_; ++document) {
    const uint64_t end = index_entry(document, 0);
    if (end < previous || end > static_cast<uint64_t>(num_tokens_)) {
      fail(file_, str("document ", document, " ends at token ", end, ", after one that ends at ",
                      previous, " of ", num_tokens_));
    }
    previous = end;
  }
  if (previous != static_cast<uint64_t>(num_tokens_)) {
    fail(file_, str("the last document ends at token ", previous, " of ", num_tokens_));
  }
}

void TokenShard::check_tokens(uint32_t expected_crc) const {
  const auto bytes = static_cast<size_t>(num_tokens_ * bytes_per_token_);
  if (crc32c(0, tokens_, bytes) != expected_crc) {
    fail(file_,
         str("the checksum of the tokens, from byte ", sizeof(ShardHeader), " on, does not hold"));
  }
  std::vector<int32_t> chunk(size_t{1} << 16);
  for (int64_t begin = 0; begin < num_tokens_;) {
    const auto count = std::min(static_cast<int64_t>(chunk.size()), num_tokens_ - begin);
    const auto ids = std::span(chunk).first(static_cast<size_t>(count));
    copy_token_ids(tokens_ + begin * bytes_per_token_, static_cast<uint64_t>(bytes_per_token_),
                   ids);
    check_ids(begin, ids);
    begin += count;
  }
}

uint64_t TokenShard::index_entry(int64_t document, int64_t field) const {
  if (document < 0 || document >= num_documents_) {
    throw Error(ErrorKind::kInternal,
                str("document ", document, " of ", num_documents_, " of a token shard"));
  }
  const auto value = value_at<uint64_t>(index_ + document * index_entry_bytes_ + field * 8);
  require_whole(file_);
  return value;
}

int64_t TokenShard::document_end(int64_t document) const {
  const uint64_t end = index_entry(document, 0);
  if (end > static_cast<uint64_t>(num_tokens_)) {
    fail_request(
        str("document ", document, " ends at token ", end, " of ", num_tokens_, " of a shard"));
  }
  return static_cast<int64_t>(end);
}

int64_t TokenShard::count_targets() const {
  int64_t targets = 0, begin = 0;
  for (int64_t document = 0; document < num_documents_; ++document) {
    const int64_t end = document_end(document);
    targets += std::max<int64_t>(end - begin - 1, 0);
    begin = end;
  }
  return targets;
}

void TokenShard::fail_request(const std::string& problem) const {
  const auto bytes = static_cast<size_t>(num_documents_ * index_entry_bytes_);
  const bool holds = crc32c(0, index_, bytes) == index_crc_;
  require_whole(file_);
  if (!holds) fail(file_, "its index was written to since it was opened");
  throw Error(ErrorKind::kInternal, problem);
}

void TokenShard::read_tokens(int64_t begin, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > num_tokens_ || begin > num_tokens_ - count) {
    fail_request(str(count, " tokens from ", begin, " on, of ", num_tokens_, " of a token shard"));
  }
  if (reference_) {
    reference_->read(begin, out);
  } else {
    const auto width = static_cast<uint64_t>(bytes_per_token_);
    const char* from = tokens_ + static_cast<uint64_t>(begin) * width;
    copy_token_ids(from, width, out);
    // After the copy: another program may write to the file at any time.
    const auto byte = static_cast<uint64_t>(from - file_.bytes().data());
    const bool holds = blocks_.holds(file_.bytes(), byte, byte + out.size() * width);
    require_whole(file_);
    if (!holds) {
      fail(file_, str("the checksum of the blocks with bytes ", byte, " to ",
                      byte + out.size() * width, " does not hold"));
    }
  }
  check_ids(begin, out);
}

void TokenShard::require_unchanged() const {
  if (reference_) reference_->require_unchanged();
  const FileInfo now = examine(file_.path());
  // A file that was removed, or replaced by another, stays mapped as it was.
  if (now.device != opened_.device || now.inode != opened_.inode) return;
  if (now.size != opened_.size || now.mtime_ns != opened_.mtime_ns)
    fail(file_, "was written to since it was opened");
}

void TokenShard::check_ids(int64_t begin, std::span<const int32_t> ids) const {
  // The ids are in the processor's cache, so this check is cheap; a wrong id would crash the
  // embedding. Ids from 2^31 on have become -1.
  uint32_t largest = 0;
  for (const int32_t id : ids) largest = std::max(largest, static_cast<uint32_t>(id));
  if (largest >= static_cast<uint64_t>(vocab_size_)) {
    fail(file_, str("among tokens ", begin, " to ", begin + std::ssize(ids), " is the id ", largest,
                    ", outside the vocabulary of ", vocab_size_));
  }
}

}  // namespace lmtrain
