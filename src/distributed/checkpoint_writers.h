// Says which processes write the tensors of a checkpoint. Where the optimizer is divided, each
// owner writes its own, if it sees the folder of rank 0 and the file system keeps the writes of
// several processes apart; rank 0 writes those of all others.
#pragma once

#include <filesystem>
#include <utility>
#include <vector>

#include "distributed/processes.h"

namespace lmtrain {

class CheckpointWriters {
 public:
  // Rank 0 writes everything.
  CheckpointWriters() = default;
  // `writes` says of each rank whether it writes its own tensors. Rank 0 does.
  explicit CheckpointWriters(std::vector<bool> writes) : writes_(std::move(writes)) {}
  // Tries it: rank 0 makes the folder `trial`, all processes write one small file in it together,
  // and rank 0 removes the folder. The `trial` of other ranks is not read. Every process calls it
  // at the same point, and gets the same. Where rank 0 cannot write there, it writes everything.
  static CheckpointWriters find(Processes& processes, const std::filesystem::path& trial);

  // Returns the rank that writes the tensors of the rank `owner`.
  int writer_of(int owner) const { return writes(owner) ? owner : 0; }
  // Returns whether this rank writes any.
  bool writes(int rank) const;
  // Returns the ranks after 0 that write.
  std::vector<int> others() const;

 private:
  std::vector<bool> writes_;  // by rank; a rank that is none of it does not write
};

}  // namespace lmtrain
