#include "base/file_chunks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "base/activities.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/open_file.h"
#include "base/text.h"

namespace lmtrain {

namespace fs = std::filesystem;

void create_file_of_size(const fs::path& path, uint64_t size) {
  const Descriptor fd(open_file(path, O_WRONLY | O_CREAT | O_TRUNC, "create"));
  if (uninterrupted([&] { return ::ftruncate(fd.get(), static_cast<off_t>(size)); }) != 0)
    fail_on_file("set the size of", path, errno);
}

ChunkWriter::ChunkWriter(const fs::path& path)
    : path_(path), fd_(open_file(path, O_WRONLY, "open")) {}

ChunkWriter::~ChunkWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void ChunkWriter::write(uint64_t offset, std::string_view bytes) {
  constexpr size_t kLong = size_t{1} << 20;
  std::optional<Activity> writing;
  if (bytes.size() >= kLong) writing.emplace("writing", path_.native());
  write_at(fd_, path_, offset, bytes);
  const bool goes_on =
      !chunks_.empty() && chunks_.back().offset + chunks_.back().sum.size == offset;
  if (!goes_on) chunks_.push_back({offset, {}});
  FileSum& sum = chunks_.back().sum;
  sum.crc = crc32c(sum.crc, bytes.data(), bytes.size());
  sum.size += bytes.size();
}

void ChunkWriter::finish() {
  sync_file(fd_, path_);
  if (::close(std::exchange(fd_, -1)) != 0) fail_on_file("close", path_, errno);
}

FileSum joined_sum(std::vector<FileChunk> chunks, uint64_t size, const fs::path& path) {
  std::sort(chunks.begin(), chunks.end(), [](const FileChunk& a, const FileChunk& b) {
    return std::pair(a.offset, a.sum.size) < std::pair(b.offset, b.sum.size);
  });
  FileSum whole;
  for (const FileChunk& chunk : chunks) {
    if (chunk.offset != whole.size) {
      throw Error(ErrorKind::kInternal,
                  str(shown(path), ": the chunks that were written end at byte ", whole.size,
                      ", and the next one begins at ", chunk.offset));
    }
    whole.crc = joined_crc32c(whole.crc, chunk.sum.crc, chunk.sum.size);
    whole.size += chunk.sum.size;
  }
  if (whole.size != size) {
    throw Error(ErrorKind::kInternal, str(shown(path), ": the chunks that were written have ",
                                          whole.size, " bytes, and the file ", size));
  }
  return whole;
}

namespace {

constexpr size_t kPart = 1000;  // bytes; no divisor of a page
constexpr int kRounds = 12;     // three pages for each process

std::string part_of(int rank) { return std::string(kPart, static_cast<char>(1 + rank % 251)); }

size_t offset_of(int round, int rank, int count) {
  return (static_cast<size_t>(round) * static_cast<size_t>(count) + static_cast<size_t>(rank)) *
         kPart;
}

}  // namespace

void create_joint_file(const fs::path& path, int count) {
  create_file_of_size(path, offset_of(kRounds, 0, count));
}

bool write_in_joint_file(const fs::path& path, int rank, int count) {
  try {
    ChunkWriter writer(path);
    for (int round = 0; round < kRounds; ++round)
      writer.write(offset_of(round, rank, count), part_of(rank));
    writer.finish();
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool holds_writes(const fs::path& path, const std::vector<int>& ranks, int count) {
  const std::string bytes = read_file(path);
  if (bytes.size() != offset_of(kRounds, 0, count)) return false;
  for (const int rank : ranks) {
    for (int round = 0; round < kRounds; ++round) {
      if (bytes.compare(offset_of(round, rank, count), kPart, part_of(rank)) != 0) return false;
    }
  }
  return true;
}

}  // namespace lmtrain
