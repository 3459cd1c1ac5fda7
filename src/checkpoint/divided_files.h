// The tensor files of a checkpoint, model.safetensors and optimizer.safetensors
// (docs/formats/checkpoint.md), as several processes write them together.
//
// Names, shapes and dtypes of all tensors are known to every process, so each knows where in the
// files its tensors lie. One process makes the files, with their size; each writes and syncs its
// tensors; and the CRCs of what they wrote are joined. The files have the bytes that one process
// writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file_pieces.h"
#include "checkpoint/checkpoint.h"
#include "formats/safetensors.h"

namespace lmtrain {

// The pieces that a process has written, by file name.
using WrittenPieces = std::map<std::string, std::vector<FilePiece>>;

class DividedFiles {
 public:
  // `buffers` are those of an optimizer of all tensors: of each, name and shape are read.
  DividedFiles(const ParameterLayout& layout, const std::vector<OptimizerBuffer>& buffers,
               CheckpointDType dtype);

  // Returns the size of both files, in bytes.
  uint64_t bytes() const;
  // Makes the files in a folder, with their size. Throws Error(kIo).
  void create(const std::filesystem::path& folder) const;
  // Writes the tensors of a snapshot into the files of a folder, which must be there, and syncs
  // them. `with_headers`: the headers too; one process writes them. Throws Error(kIo), and
  // Error(kInternal) for a tensor that the files do not have.
  WrittenPieces write(const std::filesystem::path& folder, const CheckpointSnapshot& snapshot,
                      bool with_headers) const;
  // Returns size and CRC-32C of each file, from what all processes have written. Throws
  // Error(kInternal) where that leaves a gap, or a byte was written twice.
  std::map<std::string, ManifestEntry> join(const std::vector<WrittenPieces>& parts) const;

 private:
  ParameterLayout layout_;
  CheckpointDType dtype_;
  std::map<std::string, SafetensorsLayout> files_;  // by name
};

}  // namespace lmtrain
