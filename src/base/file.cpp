#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "base/activities.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/hash.h"
#include "base/lost_pages.h"
#include "base/open_file.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void write_all(int fd, const fs::path& path, const char* data, size_t size) {
  constexpr size_t kLargestWrite = size_t{1} << 30;
  Retry retry;
  while (size > 0) {
    const ssize_t written = ::write(fd, data, std::min(size, kLargestWrite));
    if (written < 0) {
      if (retry.interrupted(errno)) continue;
      fail_on_file(str("write ", format_bytes(size), " to"), path, errno);
    }
    data += written;
    size -= static_cast<size_t>(written);
  }
}

// Returns false when another process holds the lock.
bool take_lock(int fd, const fs::path& path) {
  Retry retry;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (!retry.again(errno)) fail_on_file("lock", path, errno);
  }
  return true;
}

}  // namespace

FileWriter::FileWriter(const fs::path& path)
    : path_(path), fd_(open_file(path, O_WRONLY | O_CREAT | O_TRUNC, "create")) {}

FileWriter::FileWriter(const fs::path& path, const FileSum& kept)
    : path_(path),
      fd_(open_file(path, O_WRONLY, "open")),
      size_(kept.size),
      begun_(kept.size),
      crc_(kept.crc) {
  const auto size = static_cast<off_t>(kept.size);
  const int cut = uninterrupted([&] { return ::ftruncate(fd_, size); });
  if (cut != 0 || ::lseek(fd_, size, SEEK_SET) != size) {
    const int error = errno;
    ::close(fd_);
    fail_on_file("truncate", path, error);
  }
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(const void* data, size_t size) {
  constexpr size_t kLong = size_t{1} << 20;
  std::optional<Activity> writing;
  if (size >= kLong) writing.emplace("writing", path_.native());
  write_all(fd_, path_, static_cast<const char*>(data), size);
  crc_ = crc32c(crc_, data, size);
  size_ += size;
  // The system may begin to write what is there, so that sync() has less to wait for. It does so by
  // itself after half a minute, and sync() tells what fails.
  constexpr uint64_t kMuch = uint64_t{16} << 20;
  if (size_ - begun_ < kMuch) return;
  ::sync_file_range(fd_, static_cast<off64_t>(begun_), static_cast<off64_t>(size_ - begun_),
                    SYNC_FILE_RANGE_WRITE);
  begun_ = size_;
}

void FileWriter::overwrite(uint64_t offset, std::string_view bytes) {
  if (offset > size_ || bytes.size() > size_ - offset) {
    throw Error(ErrorKind::kInternal, str("overwriting past the end of ", shown(path_)));
  }
  write_at(fd_, path_, offset, bytes);
}

void FileWriter::sync() { sync_file(fd_, path_); }

void FileWriter::finish() {
  sync();
  if (::close(std::exchange(fd_, -1)) != 0) fail_on_file("close", path_, errno);
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor fd(open_file(path, O_RDONLY, "open"));
  size_ = size_of(fd.get(), path);
  if (size_ == 0) return;
  void* mapped = MAP_FAILED;
  for (Retry retry;;) {
    mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (mapped != MAP_FAILED) break;
    if (!retry.again(errno)) fail_on_file("map", path, errno);
  }
  data_ = mapped;
  note_mapping(data_, size_, path);
}

MappedFile::~MappedFile() { unmap(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void MappedFile::unmap() noexcept {
  if (data_ == nullptr) return;
  forget_mapping(data_);
  ::munmap(data_, size_);
}

FileLock::~FileLock() { release(); }
FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this != &other) {
    release();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

bool FileLock::try_acquire(const fs::path& path) {
  release();
  Descriptor fd(open_file(path, O_RDWR | O_CREAT, "open the lock"));
  if (!take_lock(fd.get(), path)) return false;
  fd_ = fd.release();
  return true;
}

void FileLock::release() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

FileSum write_file_synced(const fs::path& path, std::string_view bytes) {
  FileWriter writer(path);
  writer.write(bytes);
  writer.finish();
  return {writer.size(), writer.crc()};
}

FileSum copy_file_synced(const fs::path& from, const fs::path& to) {
  FileWriter writer(to);
  read_chunks(from, [&](std::string_view chunk) { writer.write(chunk); });
  writer.finish();
  return {writer.size(), writer.crc()};
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  const Activity writing("writing", path.native());
  const fs::path temporary = with_suffix(path, ".tmp");
  try {
    write_file_synced(temporary, bytes);
  } catch (const Error&) {  // of a full disk, whose space it would keep
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  publish_rename(temporary, path);
}

void replace_file_unsynced(const fs::path& path, std::string_view bytes) {
  const Activity writing("writing", path.native());
  const fs::path temporary = with_suffix(path, ".tmp");
  try {
    Descriptor fd(open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, "create"));
    write_all(fd.get(), temporary, bytes.data(), bytes.size());
    if (::close(fd.release()) != 0 && errno != EINTR) fail_on_file("close", temporary, errno);
    if (uninterrupted([&] { return ::rename(temporary.c_str(), path.c_str()); }) != 0)
      fail_on_file(str("rename ", shown(temporary), " to"), path, errno);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

void append_file(const fs::path& path, std::string_view bytes, bool sync) {
  const Activity writing("writing", path.native());
  Descriptor fd(open_file(path, O_WRONLY | O_CREAT | O_APPEND, "append to"));
  const off_t before = ::lseek(fd.get(), 0, SEEK_END);
  try {
    write_all(fd.get(), path, bytes.data(), bytes.size());
  } catch (const Error&) {
    // If this fails too, the next reader finds a torn line.
    [[maybe_unused]] const int result = ::ftruncate(fd.get(), before);
    throw;
  }
  if (sync) sync_file(fd.get(), path);
  // A network file system, or a quota, may refuse here what it has accepted before.
  if (::close(fd.release()) != 0 && errno != EINTR) {
    const int error = errno;
    [[maybe_unused]] const int result = ::truncate(path.c_str(), before);
    fail_on_file("close", path, error);
  }
  if (sync) sync_directory(folder_of(path));  // the file may be new
}

void overwrite_file(const fs::path& path, uint64_t offset, std::string_view bytes) {
  const Descriptor fd(open_file(path, O_WRONLY, "open"));
  write_at(fd.get(), path, offset, bytes);
}

void truncate_file(const fs::path& path, uint64_t size) {
  const auto cut = [&] { return ::truncate(path.c_str(), static_cast<off_t>(size)); };
  if (uninterrupted(cut) != 0) fail_on_file("truncate", path, errno);
}

void publish_rename(const fs::path& from, const fs::path& to) {
  const Activity renaming("renaming", from.native());
  if (uninterrupted([&] { return ::rename(from.c_str(), to.c_str()); }) != 0)
    fail_on_file(str("rename ", shown(from), " to"), to, errno);
  sync_directory(folder_of(to));
}

void sync_directory(const fs::path& path) {
  const Activity syncing("syncing the folder", path.native());
  const Descriptor fd(open_any(path, O_RDONLY | O_DIRECTORY, "open the folder"));
  // Some file systems do not sync folders and say so with EINVAL; there is nothing more to be had
  // from them.
  if (uninterrupted([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL)
    fail_on_file("sync the folder", path, errno);
}

void create_directories(const fs::path& path) {
  std::vector<fs::path> missing;  // the innermost first
  for (fs::path folder = path; !folder.empty() && !is_there(folder); folder = folder.parent_path())
    missing.push_back(folder);
  std::error_code error;
  Retry retry;
  do {
    fs::create_directories(path, error);
  } while (error && retry.again(error.value()));
  if (error) fail_on_file("create the folder", path, error.value());
  for (const fs::path& folder : missing) sync_directory(folder_of(folder));
}

void remove_tree(const fs::path& path) {
  const Activity removing("removing", path.native());
  std::error_code error;
  Retry retry;
  do {
    fs::remove_all(path, error);
  } while (error && retry.again(error.value()));
  if (error) fail_on_file("remove", path, error.value());
}

void require_free_space(const fs::path& path, uint64_t bytes, std::string_view purpose) {
  struct statvfs info {};
  Retry retry;
  while (::statvfs(path.c_str(), &info) != 0) {
    if (!retry.again(errno)) fail_on_file("examine the file system of", path, errno);
  }
  const uint64_t available = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  if (available < bytes) {
    throw Error(ErrorKind::kIo,
                str(purpose, " needs ", format_bytes(bytes), " in ", shown(path), ", which has ",
                    format_bytes(available), " free; free some space"));
  }
}

namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

const std::filesystem::path& require_kept(const std::filesystem::path& path, const FileSum& kept) {
  require_there(path);
  if (sum_file(path, kept.size) != kept) {
    throw Error(ErrorKind::kData, str(shown(path), ": its first ", kept.size,
                                      " bytes are not those that were written"));
  }
  return path;
}

}  // namespace

BufferedFile::BufferedFile(const std::filesystem::path& path) : file_(path) {}
BufferedFile::BufferedFile(const std::filesystem::path& path, const FileSum& kept)
    : file_(require_kept(path, kept), kept) {}

void BufferedFile::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kBufferBytes) flush();
}

void BufferedFile::flush() {
  file_.write(buffer_);
  buffer_.clear();
}

FileSum BufferedFile::sync() {
  flush();
  file_.sync();
  return {file_.size(), file_.crc()};
}

void BufferedFile::finish() {
  flush();
  file_.finish();
}

}  // namespace lmtrain
