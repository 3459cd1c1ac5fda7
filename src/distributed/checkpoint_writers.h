// Says which processes write the tensors of a checkpoint. Rank 0 always writes its own tensors.
// With a divided optimizer another rank writes its own tensors if two things hold: it can write in
// the folder of rank 0, and the file system keeps the writes of several processes apart. Rank 0
// writes the tensors of all other ranks.
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
  // `writes[rank]` says whether that rank writes its own tensors; `writes[0]` is not read.
  explicit CheckpointWriters(std::vector<bool> writes) : writes_(std::move(writes)) {}
  // Finds the writers by a trial. Rank 0 makes the folder `trial`, all processes write one small
  // file in it together, and rank 0 removes the folder. Only the `trial` that rank 0 passes is
  // used. Every process calls it at the same point and gets the same result. If rank 0 cannot write
  // there, or the file lacks some writes, rank 0 writes everything. Throws the errors of
  // `processes` only.
  static CheckpointWriters find(Processes& processes, const std::filesystem::path& trial);

  // Returns the rank that writes the tensors of the rank `owner`.
  int writer_of(int owner) const { return writes(owner) ? owner : 0; }
  // Returns whether this rank writes tensors.
  bool writes(int rank) const;
  // Returns the ranks that write, without rank 0.
  std::vector<int> others() const;

 private:
  std::vector<bool> writes_;  // by rank; beyond its end a rank does not write
};

}  // namespace lmtrain
