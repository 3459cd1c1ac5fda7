// Saves checkpoints with all processes of a run that write (distributed/checkpoint_writers.h).
//
// Rank 0 makes the unfinished folder, which no other attempt has, and the files in it; each process
// writes and syncs its tensors; rank 0 writes the rest, joins the checksums, writes the manifest
// and publishes, when all have written. While they write they tell each other by notes
// (Processes::leave_note) and not by exchanges, so none of them waits for another one's training.
//
// Where one of them cannot write, rank 0 fails with the error of that one. Each process makes the
// same saves, in the same order. Where rank 0 writes a checkpoint alone,
// none of this applies: write() is write_checkpoint, and the others need not call it.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "distributed/processes.h"
#include "distributed/checkpoint_writers.h"
#include "checkpoint/divided_files.h"
#include "distributed/optimizer_shards.h"

namespace lmtrain {

class SharedSave {
 public:
  // All but `config` must outlive this. `run` is the folder of rank 0.
  SharedSave(Processes& processes, const OptimizerShards& shards, const CheckpointWriters& writers,
             const RunFolder& run, const CheckpointTexts& texts, const ParameterLayout& layout,
             const CheckpointConfig& config);

  // Returns a name for the next attempt to save, the same in all processes; nothing where rank 0
  // does not want one. It is an exchange where the optimizer is divided.
  std::optional<std::string> new_attempt(bool is_wanted) const;
  // Writes the tensors of the snapshot, and in rank 0 publishes the checkpoint when the others have
  // written theirs. Any thread may call it. In rank 0 it throws the errors of write_checkpoint, and
  // those of the other processes, with their name; then nothing is published. In another process
  // it throws ProcessLost alone.
  void write(const std::string& attempt, const CheckpointSnapshot& snapshot) const;
  // Rank 0 calls this in place of write(): the others then write nothing.
  void call_off(const std::string& attempt) const;

 private:
  void lead(const std::string& attempt, const CheckpointSnapshot& snapshot) const;
  void follow(const std::string& attempt, const CheckpointSnapshot& snapshot) const;
  void tell_folder(const std::string& attempt, const std::string& folder) const;
  // Writes rank 0's part, waits for the others, and returns the sums of the whole files.
  std::map<std::string, ManifestEntry> write_with_others(const std::string& attempt,
                                                         const std::filesystem::path& folder,
                                                         const CheckpointSnapshot& snapshot) const;

  Processes& processes_;
  const OptimizerShards& shards_;
  const CheckpointWriters& writers_;
  const RunFolder& run_;
  const CheckpointTexts& texts_;
  const ParameterLayout& layout_;
  CheckpointConfig config_;
  std::optional<DividedFiles> files_;  // none where rank 0 writes alone
};

}  // namespace lmtrain
