// A file that several processes write together: one makes it with its whole size, each writes its
// pieces, and the pieces are joined to size and CRC-32C of the whole.
//
// All calls throw the errors of file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace lmtrain {

// A FilePiece is a part of a file that was written without gaps, and the sum of its bytes.
struct FilePiece {
  uint64_t offset = 0;
  FileSum sum;
  bool operator==(const FilePiece&) const = default;
};

// Creates the file, or empties an existing one, and fills it with `size` bytes of zeros. No fsync.
void create_file_of_size(const std::filesystem::path& path, uint64_t size);

// A PieceWriter writes pieces of a file that must be there and has its size. Other processes may be
// writing other pieces.
class PieceWriter {
 public:
  explicit PieceWriter(const std::filesystem::path& path);
  ~PieceWriter();  // closes without a check; call finish() on success
  PieceWriter(const PieceWriter&) = delete;
  PieceWriter& operator=(const PieceWriter&) = delete;

  void write(uint64_t offset, std::string_view bytes);
  // Syncs and closes; throws if either fails. No write may follow.
  void finish();

  // Returns what was written. Writes that follow each other without a gap are one piece. The CRC
  // counts the bytes handed to the operating system.
  const std::vector<FilePiece>& pieces() const { return pieces_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<FilePiece> pieces_;
};

// Returns size and CRC-32C of a file of `size` bytes that consists of these pieces, in any order.
// Throws Error(kInternal), which names `path`, where the pieces leave a gap, overlap, or end
// elsewhere.
FileSum joined_sum(std::vector<FilePiece> pieces, uint64_t size, const std::filesystem::path& path);

}  // namespace lmtrain
