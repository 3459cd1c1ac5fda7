// Functions and classes for files that must last. Every call checks what the operating system says.
// It throws Error(kIo), or Error(kMemory) for ENOMEM, with the path, the operation and the reason.
// Nothing here uses iostreams, which report success on a full disk. A function that opens a file
// throws Error(kData) for a pipe, a socket, a folder or a device; a character device such as
// /dev/null may be written (open_file.h).
//
// To publish is to write, fsync, rename, and fsync the folder. write_file_atomic does this for one
// file; publish.h does it for folders.
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

// A FileWriter writes a file from its beginning, and keeps size and CRC-32C of the bytes written.
class FileWriter {
 public:
  // Creates the file, or empties the one that is there.
  explicit FileWriter(const std::filesystem::path& path);
  // Cuts a file, which must exist, to `kept.size` bytes and appends to it. crc() goes on from
  // `kept.crc`. It does not check the bytes that are there, and fills a shorter file with zeros.
  // BufferedFile checks.
  FileWriter(const std::filesystem::path& path, const FileSum& kept);
  ~FileWriter();  // closes without a check; call finish() on success
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  // Replaces bytes that were written before, such as a header that is known only at the end. The
  // bytes must lie within size(), else it throws Error(kInternal). crc() remains the checksum of
  // the bytes first written.
  void overwrite(uint64_t offset, std::string_view bytes);
  void sync();  // fsync
  // Syncs and closes; throws if either fails. No call may follow.
  void finish();

  uint64_t size() const { return size_; }
  uint32_t crc() const { return crc_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  uint64_t begun_ = 0;  // bytes that the system was told to begin to write
  uint32_t crc_ = 0;
};

// Maps a whole file into memory, to be read only. For an empty file bytes() is empty. lost_pages.h
// says what happens when another program cuts the file short meanwhile.
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

// A FileLock is an advisory lock (flock) on a file that it creates if missing and leaves there. It
// is released when the object is destroyed or the process dies.
class FileLock {
 public:
  FileLock() = default;
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Releases the lock that this object holds, then tries to lock `path`. It does not wait: it
  // returns false when another process, or another FileLock of this process, holds the lock.
  bool try_acquire(const std::filesystem::path& path);

 private:
  void release() noexcept;
  int fd_ = -1;
};

// Returns the bytes of a small file. Throws Error(kData) when it has more than kMostOfSmallFile
// bytes (read_file.h, which has functions for larger ones).
std::string read_file(const std::filesystem::path& path);
// Reads the file in chunks of 1 MiB, from its beginning up to `most` bytes.
void read_chunks(const std::filesystem::path& path,
                 const std::function<void(std::string_view)>& visit, uint64_t most = UINT64_MAX);
// Returns size and CRC-32C of the file's first `most` bytes, or of all of it where it is shorter.
// It reads in chunks, so memory is constant.
FileSum sum_file(const std::filesystem::path& path, uint64_t most = UINT64_MAX);
// These two write a file from its beginning, fsync it, and return its sum. They do not sync its
// folder. The copy is made in chunks, so memory is constant.
FileSum write_file_synced(const std::filesystem::path& path, std::string_view bytes);
FileSum copy_file_synced(const std::filesystem::path& from, const std::filesystem::path& to);
// Writes PATH.tmp, syncs it and renames it to PATH: a reader sees the old bytes or the new ones,
// also after a crash. Two writers of one path at a time are not allowed. A failure may leave
// PATH.tmp there. A symbolic link at PATH is replaced, not followed.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);
// Does the same without fsync, for a file whose next version comes soon. A reader sees the old
// bytes or the new ones, but after a crash of the machine the file may be empty.
void replace_file_unsynced(const std::filesystem::path& path, std::string_view bytes);
// Appends the bytes in one write; creates the file if it is missing. With `sync` the bytes and the
// name of the file are on disk afterwards. When a write fails, it cuts the file back to its old
// size and throws.
void append_file(const std::filesystem::path& path, std::string_view bytes, bool sync);
// Writes `bytes` at `offset` of a file that must be there. Bytes beyond the end make the file grow.
// No fsync.
void overwrite_file(const std::filesystem::path& path, uint64_t offset, std::string_view bytes);
// Sets the size of a file that must be there. No fsync.
void truncate_file(const std::filesystem::path& path, uint64_t size);
// Renames as rename(2) and fsyncs the parent folder of `to`. A file at `to` is replaced; a folder
// there must be empty.
void publish_rename(const std::filesystem::path& from, const std::filesystem::path& to);
// fsyncs a folder, so that the names in it last. No error where the file system cannot (EINVAL).
void sync_directory(const std::filesystem::path& path);
// Creates a folder and its parents, and syncs their names. Folders that are there already are fine.
void create_directories(const std::filesystem::path& path);
// Removes a file or folder tree; a missing one is fine. Symbolic links, at `path` or below, are
// removed, never what they lead to.
void remove_tree(const std::filesystem::path& path);
// Throws Error(kIo) that names both figures when the file system of `path`, which must exist, has
// fewer than `bytes` free. The message begins with `purpose`: "a checkpoint" gives "a checkpoint
// needs ...".
void require_free_space(const std::filesystem::path& path, uint64_t bytes,
                        std::string_view purpose);

// A BufferedFile collects small writes in a buffer of 1 MiB. sync() returns the size and checksum
// of the file on disk; with these a later process continues the file, also after a crash. It is not
// thread-safe. Throws the errors of this header.
class BufferedFile {
 public:
  // Creates the file, or empties the one that is there.
  explicit BufferedFile(const std::filesystem::path& path);
  // Continues a file for which sync() returned `kept`: keeps its first `kept.size` bytes and cuts
  // off the rest. Reads those bytes, and throws Error(kData) unless they have the checksum.
  BufferedFile(const std::filesystem::path& path, const FileSum& kept);

  void write(std::string_view bytes);
  // Hands the buffer to the operating system. The destructor does not: bytes still in the buffer
  // are lost.
  void flush();
  // Flushes and fsyncs. Returns size and checksum of all bytes written.
  FileSum sync();
  // Flushes, syncs and closes. No call may follow.
  void finish();

  // Returns the number of bytes kept and written, flushed or not.
  uint64_t size() const { return file_.size() + buffer_.size(); }
  // Returns the file below the buffer. The caller must call flush() before using it.
  FileWriter& file() { return file_; }

 private:
  FileWriter file_;
  std::string buffer_;
};

}  // namespace lmtrain
