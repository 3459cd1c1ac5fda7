// Several processes write one file together. One process creates the file with its whole size, each
// process writes its chunks, and joined_sum() gives size and CRC-32C of the whole.
//
// All calls throw the errors of file.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace lmtrain {

// A FileChunk is a part of a file that was written without gaps, and the sum of its bytes.
struct FileChunk {
  uint64_t offset = 0;
  FileSum sum;
  bool operator==(const FileChunk&) const = default;
};

// Creates the file, or empties an existing one, and fills it with `size` bytes of zeros. No fsync.
void create_file_of_size(const std::filesystem::path& path, uint64_t size);

// A ChunkWriter writes chunks of a file that create_file_of_size() has made. Other processes may
// write other chunks meanwhile.
class ChunkWriter {
 public:
  explicit ChunkWriter(const std::filesystem::path& path);
  ~ChunkWriter();  // closes without a check; call finish() on success
  ChunkWriter(const ChunkWriter&) = delete;
  ChunkWriter& operator=(const ChunkWriter&) = delete;

  void write(uint64_t offset, std::string_view bytes);
  // Syncs and closes; throws if either fails. No write may follow.
  void finish();

  // Returns what was written. Writes that follow each other without a gap are one chunk. The CRC
  // counts the bytes handed to the operating system.
  const std::vector<FileChunk>& chunks() const { return chunks_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<FileChunk> chunks_;
};

// Returns size and CRC-32C of a file of `size` bytes that consists of these chunks, in any order.
// Throws Error(kInternal), which names `path`, where the chunks leave a gap, overlap, or end
// elsewhere.
FileSum joined_sum(std::vector<FileChunk> chunks, uint64_t size, const std::filesystem::path& path);

// These three test whether `count` processes, maybe on several machines, can write one file
// together: all see the file, and no process overwrites the bytes of another. Network file systems
// may fail: one machine writes a whole page where its process wrote a part of the page.
//
// The first process calls create_joint_file(). Then all call write_in_joint_file(). When all calls
// have returned, the first process calls holds_writes().
//
// Creates the file, with room for the parts of `count` processes. Throws Error(kIo).
void create_joint_file(const std::filesystem::path& path, int count);
// Writes and syncs the parts of process `rank`, from 0 to `count` - 1. Returns false where the file
// is missing or the system refuses.
bool write_in_joint_file(const std::filesystem::path& path, int rank, int count);
// Returns whether the file holds the parts of these processes. Throws Error(kIo).
bool holds_writes(const std::filesystem::path& path, const std::vector<int>& ranks, int count);

}  // namespace lmtrain
