#include "formats/token_reference.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/hash.h"
#include "base/lost_pages.h"
#include "base/text.h"
#include "formats/token_shard_layout.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_reference(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kData,
              str(shown(path), ": ", what, "; delete it and prepare the data again"));
}

template <class Token>
void copy_ids(const char* from, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto token = value_at<Token>(from + i * sizeof(Token));
    out[i] = token <= INT32_MAX ? static_cast<int32_t>(token) : -1;
  }
}

constexpr uint64_t kNumbersPerFile = 6;

std::string file_table(std::span<const ReferencedFile> files) {
  std::string table;
  for (const ReferencedFile& file : files) {
    const std::string& path = file.path.native();
    for (const uint64_t number : {file.size, static_cast<uint64_t>(file.mtime_ns), file.begin,
                                  file.num_tokens, file.bytes_per_token, uint64_t{path.size()}})
      table += object_bytes(number);
    table += path;
    table.append(shard_padding(table.size()), '\0');
  }
  return table;
}

[[noreturn]] void fail_written_to(const fs::path& file, const std::string& how) {
  throw Error(ErrorKind::kData,
              str(shown(file), ": ", how, " since its tokens were prepared, and they are in use; ",
                  "restore it, or prepare the data again and begin a new run"));
}

FileInfo require_as_it_was(const ReferencedFile& file, const fs::path& shard) {
  const FileInfo now = examine(file.path);
  const bool exists = now.kind != FileKind::kMissing;
  if (exists && now.size == file.size && now.mtime_ns == file.mtime_ns) return now;
  throw Error(ErrorKind::kData,
              str(shown(file.path), ": its tokens are used by ", shown(shard), ", and it ",
                  exists ? "has changed" : "cannot be found", " since; prepare the data again"));
}

}  // namespace

void copy_token_ids(const char* from, uint64_t bytes_per_token, std::span<int32_t> out) {
  switch (bytes_per_token) {
    case 1:
      return copy_ids<uint8_t>(from, out);
    case 2:
      return copy_ids<uint16_t>(from, out);
    case 4:
      return copy_ids<uint32_t>(from, out);
    default:
      return copy_ids<uint64_t>(from, out);
  }
}

void write_token_reference(const fs::path& path, int64_t vocab_size,
                           std::span<const ReferencedFile> files,
                           std::span<const ReferencedDocument> documents) {
  const std::string table = file_table(files);
  std::string index;
  index.reserve(documents.size() * kReferenceEntryBytes);
  uint64_t end = 0;
  for (const ReferencedDocument& document : documents) {
    end += document.num_tokens;
    for (const uint64_t number : {end, document.raw_bytes, document.begin, document.file})
      index += object_bytes(number);
  }
  ReferenceHeader header{.num_files = static_cast<uint32_t>(files.size()),
                         .vocab_size = static_cast<uint64_t>(vocab_size),
                         .num_documents = documents.size(),
                         .num_tokens = end,
                         .table_bytes = table.size(),
                         .table_crc = crc32c(0, table.data(), table.size()),
                         .index_crc = crc32c(0, index.data(), index.size())};
  header.header_crc = crc32c(0, &header, kShardHeaderCrcOffset);
  std::string bytes(object_bytes(header));
  std::vector<BlockSums> sums;
  for (const ReferencedFile& file : files) sums.push_back(file.sums);
  write_block_sums(block_sums_path(path), sums);
  write_file_atomic(path, bytes + table + index);
}

bool TokenReference::begins(std::string_view bytes) {
  return bytes.starts_with(std::string_view(kReferenceMagic.data(), kReferenceMagic.size()));
}

TokenReference::TokenReference(const MappedFile& shard) : path_(shard.path()) {
  const std::string_view bytes = shard.bytes();
  ReferenceHeader header;
  if (bytes.size() < sizeof header) fail_reference(shard.path(), "is shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.header_crc != crc32c(0, bytes.data(), kShardHeaderCrcOffset))
    fail_reference(shard.path(), "the header's checksum does not hold");
  if (header.version != kReferenceVersion)
    fail_reference(shard.path(),
                   str("is of version ", header.version, ", and ", kReferenceVersion, " is read"));
  const uint64_t rest = bytes.size() - sizeof header;
  if (header.table_bytes > rest || header.num_documents > rest / kReferenceEntryBytes ||
      header.table_bytes + header.num_documents * kReferenceEntryBytes != rest ||
      header.num_tokens > INT64_MAX || header.vocab_size < 1 ||
      header.vocab_size > kShardLargestVocabulary || header.reserved != 0)
    fail_reference(shard.path(), "the fields of the header contradict its size or each other");
  const std::string_view table = bytes.substr(sizeof header, header.table_bytes);
  const std::string_view index = bytes.substr(sizeof header + header.table_bytes);
  if (crc32c(0, table.data(), table.size()) != header.table_crc)
    fail_reference(shard.path(), "the checksum of the list of files does not hold");
  if (crc32c(0, index.data(), index.size()) != header.index_crc)
    fail_reference(shard.path(), "the checksum of the index does not hold");
  num_documents_ = static_cast<int64_t>(header.num_documents);
  num_tokens_ = static_cast<int64_t>(header.num_tokens);
  vocab_size_ = static_cast<int64_t>(header.vocab_size);
  index_ = index.data();
  index_crc_ = header.index_crc;
  open_files(table, header.num_files);
  open_sums();
  check_documents();
}

void TokenReference::open_files(std::string_view table, uint64_t num_files) {
  constexpr uint64_t kFixedBytes = kNumbersPerFile * sizeof(uint64_t);
  uint64_t offset = 0;
  for (uint64_t i = 0; i < num_files; ++i) {
    if (table.size() - offset < kFixedBytes)
      fail_reference(path_, "the list of files is cut short");
    const auto number = [&](uint64_t field) {
      return value_at<uint64_t>(table.data() + offset + 8 * field);
    };
    const uint64_t path_bytes = number(5);
    if (path_bytes > table.size() - offset - kFixedBytes)
      fail_reference(path_, "the list of files is cut short");
    const ReferencedFile file{fs::path(table.substr(offset + kFixedBytes, path_bytes)),
                              number(0),
                              static_cast<int64_t>(number(1)),
                              number(2),
                              number(3),
                              number(4)};
    const bool width_is_known = file.bytes_per_token == 1 || file.bytes_per_token == 2 ||
                                file.bytes_per_token == 4 || file.bytes_per_token == 8;
    if (!width_is_known || file.begin > file.size ||
        file.num_tokens > (file.size - file.begin) / file.bytes_per_token)
      fail_reference(path_, str("what it says of file ", i, " contradicts itself"));
    const FileInfo opened = require_as_it_was(file, path_);
    files_.push_back({file, MappedFile(file.path), opened});
    survive_lost_pages(files_.back().bytes);
    if (files_.back().bytes.bytes().size() != file.size) require_as_it_was(file, path_);
    offset += kFixedBytes + path_bytes;
    offset += shard_padding(offset);
    if (offset > table.size()) fail_reference(path_, "the list of files is cut short");
  }
}

void TokenReference::open_sums() {
  const fs::path path = block_sums_path(path_);
  if (!is_there(path)) return;
  std::vector<BlockSums> sums = read_block_sums(path);
  if (sums.size() != files_.size())
    fail_reference(path_, shown(path) + " has checksums of other files");
  for (size_t i = 0; i < files_.size(); ++i) {
    if (sums[i].size() != num_sum_blocks(files_[i].file.size))
      fail_reference(path_, shown(path) + " has checksums of other files");
    files_[i].blocks = BlockCheck(std::move(sums[i]));
  }
}

void TokenReference::require_unchanged() const {
  constexpr size_t kMost = 64;
  const size_t count = std::min(files_.size(), kMost);
  const size_t first = next_->fetch_add(count, std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) {
    const OpenFile& open = files_[(first + i) % files_.size()];
    const FileInfo now = examine(open.file.path);
    // A file that was removed, or replaced by another, stays mapped as it was.
    if (now.device != open.opened.device || now.inode != open.opened.inode) continue;
    if (now.size != open.file.size) fail_written_to(open.file.path, "its size has changed");
    if (now.mtime_ns != open.file.mtime_ns) fail_written_to(open.file.path, "it was written to");
  }
}

uint64_t TokenReference::entry(int64_t document, int64_t field) const {
  return value_at<uint64_t>(index_ + document * static_cast<int64_t>(kReferenceEntryBytes) +
                            8 * field);
}

void TokenReference::check_documents() const {
  uint64_t previous = 0;
  for (int64_t document = 0; document < num_documents_; ++document) {
    const uint64_t end = entry(document, 0);
    const uint64_t begin = entry(document, 2);
    const uint64_t file = entry(document, 3);
    if (end < previous || end > static_cast<uint64_t>(num_tokens_) || file >= files_.size() ||
        begin > files_[file].file.num_tokens ||
        end - previous > files_[file].file.num_tokens - begin)
      fail_reference(path_, str("document ", document, " is not within a file"));
    previous = end;
  }
  if (previous != static_cast<uint64_t>(num_tokens_))
    fail_reference(path_, str("the documents hold ", previous, " tokens of ", num_tokens_));
}

void TokenReference::read(int64_t begin, std::span<int32_t> out) const {
  if (out.empty()) return;
  // Finds the document that holds token `begin`: the first document that ends after it.
  int64_t document = 0;
  for (int64_t count = num_documents_; count > 0;) {
    const int64_t half = count / 2;
    if (entry(document + half, 0) <= static_cast<uint64_t>(begin)) {
      document += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  uint64_t token = static_cast<uint64_t>(begin);
  while (!out.empty()) {
    // The index was checked when it was opened; a page of it that was lost since is zeros.
    const auto require_sound = [&](bool is_sound) {
      if (!is_sound) fail_reference(path_, "its index is not what it was when it was opened");
    };
    require_sound(document < num_documents_);
    const uint64_t document_begin = document == 0 ? 0 : entry(document - 1, 0);
    const uint64_t document_end = entry(document, 0);
    const uint64_t file = entry(document, 3);
    require_sound(document_begin <= token && token <= document_end && file < files_.size());
    const auto count = static_cast<size_t>(std::min<uint64_t>(document_end - token, out.size()));
    const OpenFile& source = files_[file];
    const uint64_t index = entry(document, 2) + (token - document_begin);
    require_sound(index <= source.file.num_tokens && count <= source.file.num_tokens - index);
    const std::string_view bytes = source.bytes.bytes();
    const uint64_t byte = source.file.begin + index * source.file.bytes_per_token;
    const uint64_t byte_end = byte + count * source.file.bytes_per_token;
    copy_token_ids(bytes.data() + byte, source.file.bytes_per_token, out.first(count));
    // After the copy: another program may write to the file at any time.
    const bool holds = source.blocks.holds(bytes, byte, byte_end);
    require_whole(source.bytes);
    if (!holds) {
      fail_written_to(source.file.path, str("the checksum of the blocks with bytes ", byte, " to ",
                                            byte_end, " does not hold: it was written to"));
    }
    out = out.subspan(count);
    token += count;
    ++document;
  }
}

}  // namespace lmtrain
