// Lets several processes write the tensor files of a checkpoint together: model.safetensors and
// optimizer.safetensors (docs/formats/checkpoint.md).
//
// Every process knows the names, shapes and dtypes of all tensors, and so their offsets in the
// files. One process creates the files in their full size. Each process writes and syncs its
// tensors. The CRCs of all pieces are then joined. The files have the same bytes as when one
// process writes them.
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
  // `buffers` are the buffers of an optimizer that updates all tensors. Only their names and shapes
  // are read.
  DividedFiles(const ParameterLayout& layout, const std::vector<OptimizerBuffer>& buffers,
               CheckpointDType dtype);

  // Returns the sum of the sizes of both files, in bytes.
  uint64_t bytes() const;
  // Creates the files in a folder, in their full size. Throws Error(kIo).
  void create(const std::filesystem::path& folder) const;
  // Writes the tensors of a snapshot into the existing files of a folder, and syncs the files.
  // With `with_headers` it also writes the headers, which one process must do. Throws:
  //   Error(kIo)        the files are missing or cannot be written
  //   Error(kInternal)  the files have no place for a tensor
  WrittenPieces write(const std::filesystem::path& folder, const CheckpointSnapshot& snapshot,
                      bool with_headers) const;
  // Returns size and CRC-32C of each file, from the pieces of all processes. Throws
  // Error(kInternal) when the pieces leave a gap or overlap.
  std::map<std::string, ManifestEntry> join(const std::vector<WrittenPieces>& parts) const;

 private:
  ParameterLayout layout_;
  CheckpointDType dtype_;
  std::map<std::string, SafetensorsLayout> files_;  // by name
};

}  // namespace lmtrain
