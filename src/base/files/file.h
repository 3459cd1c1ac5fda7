// Files that must last. Every call checks what the operating system says and throws Error(kIo) with
// the path, the operation and the reason; nothing here goes through iostreams, which report success
// on a full disk. A pipe, device or folder in place of a file is Error(kData) (open_file.h).
//
// Publishing: write, fsync, rename, fsync the folder. write_file_atomic does this for one file;
// checkpoints do it for a folder with the pieces below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace lmtrain {

struct FileSum {
  uint64_t size = 0;
  uint32_t crc = 0;  // CRC-32C
  bool operator==(const FileSum&) const = default;
};

// Appends to a file it creates (or truncates), keeping size and CRC-32C of the bytes handed over.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path);
  // Continues a file that must be there: cuts it to `kept.size` bytes and appends. Does not read
  // the bytes that stay; their checksum is taken to be `kept.crc`.
  FileWriter(const std::filesystem::path& path, const FileSum& kept);
  ~FileWriter();  // closes without a check; call finish() on success
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  // Replaces bytes that were written before, such as a header that is known only at the end. They
  // must lie within size(), else Error(kInternal). crc() stays that of the bytes first written.
  void overwrite(uint64_t offset, std::string_view bytes);
  void sync();  // fsync
  // sync and close; throws if either fails.
  void finish();

  uint64_t size() const { return size_; }
  uint32_t crc() const { return crc_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  uint32_t crc_ = 0;
};

// A read-only memory map of a whole file. An empty file maps to an empty view.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void unmap() noexcept;

  std::filesystem::path path_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// An advisory lock (flock) on a file it creates if missing; released on destruction or death of the
// process.
class FileLock {
 public:
  FileLock() = default;
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Releases the lock that this object holds, then tries to take the one of `path`. False when
  // another process, or another FileLock of this one, holds it.
  bool try_acquire(const std::filesystem::path& path);
  // The same, but waits until it is free, through signals too.
  void acquire(const std::filesystem::path& path);

 private:
  void release() noexcept;
  int fd_ = -1;
};

// For small files, at most kMostOfSmallFile bytes; read_file.h has the others.
std::string read_file(const std::filesystem::path& path);
// Reads the file in pieces of 1 MiB, from its beginning up to `most` bytes.
void read_pieces(const std::filesystem::path& path,
                 const std::function<void(std::string_view)>& visit, uint64_t most = UINT64_MAX);
// Size and CRC-32C of the file's first `most` bytes, or of all of it where it is shorter. Memory is
// constant.
FileSum sum_file(const std::filesystem::path& path, uint64_t most = UINT64_MAX);
// Writes beside the target and renames over it: a reader sees the old bytes or the new ones, also
// after a crash.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);
// Appends to the file, which it creates if missing, in one write; fsyncs if `sync`.
void append_file(const std::filesystem::path& path, std::string_view bytes, bool sync);
// Writes `bytes` at `offset` of a file that must be there; the file grows where they go beyond its
// end. No fsync.
void overwrite_file(const std::filesystem::path& path, uint64_t offset, std::string_view bytes);
// Sets the size of a file that must be there. No fsync.
void truncate_file(const std::filesystem::path& path, uint64_t size);
// Renames and fsyncs the parent folder of the target.
void publish_rename(const std::filesystem::path& from, const std::filesystem::path& to);
void sync_directory(const std::filesystem::path& path);
// Creates a folder and its parents; one that is there is fine. No fsync.
void create_directories(const std::filesystem::path& path);
// Removes a file or folder tree; missing is fine.
void remove_tree(const std::filesystem::path& path);
// Error(kIo) naming both figures when the file system of `path`, which must exist, has fewer than
// `bytes` free. The message begins with `purpose`: "the checkpoint needs ...".
void require_free_space(const std::filesystem::path& path, uint64_t bytes,
                        std::string_view purpose);

}  // namespace lmtrain
