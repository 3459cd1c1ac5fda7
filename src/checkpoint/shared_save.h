// Saves a checkpoint whose tensors several processes write (distributed/checkpoint_writers.h).
//
// For each attempt rank 0 creates an unfinished folder with a new name, and the files in it. Each
// writer writes and syncs its tensors. Then rank 0 joins the checksums, writes the other files and
// the manifest, and publishes the checkpoint. Writers leave notes (Processes::leave_note) and make
// no exchange, so no save waits for another process's training.
//
// Every process knows names, shapes and dtypes of all tensors, and so their offsets in
// model.safetensors and optimizer.safetensors (docs/formats/checkpoint.md). So the files have the
// same bytes as if one process writes them.
//
// If a writer fails, rank 0 throws its error. Every writer makes the same saves in the same order.
// If rank 0 is the only writer, it alone calls write(), which is then write_checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_chunks.h"
#include "checkpoint/checkpoint.h"
#include "distributed/checkpoint_writers.h"
#include "distributed/optimizer_shards.h"
#include "distributed/processes.h"
#include "formats/safetensors.h"

namespace lmtrain {

// The chunks of files that a process has written, by file name.
using WrittenChunks = std::map<std::string, std::vector<FileChunk>>;

// Writes the two tensor files of a checkpoint together with other processes.
class DividedFiles {
 public:
  // `buffers` are of an optimizer that updates all tensors; only their names and shapes are read.
  DividedFiles(const ParameterLayout& layout, const std::vector<OptimizerBuffer>& buffers,
               CheckpointDType dtype);

  // Returns the bytes of both files together.
  uint64_t bytes() const;
  // Creates the files in a folder, in their full size. Throws Error(kIo).
  void create(const std::filesystem::path& folder) const;
  // Writes the tensors of a snapshot into the existing files of a folder, and syncs the files.
  // With `with_headers` it also writes the headers, which one process must do. Throws:
  //   Error(kIo)        the files are missing or cannot be written
  //   Error(kInternal)  the files have no place for a tensor
  WrittenChunks write(const std::filesystem::path& folder, const CheckpointSnapshot& snapshot,
                      bool with_headers) const;
  // Returns size and CRC-32C of each file, by name, from the chunks of all processes. Throws
  // Error(kInternal) if the chunks leave a gap or overlap.
  std::map<std::string, ManifestEntry> join(const std::vector<WrittenChunks>& parts) const;

 private:
  ParameterLayout layout_;
  CheckpointDType dtype_;
  std::map<std::string, SafetensorsLayout> files_;  // by name
};

// Returns which processes write the checkpoints of a run: with a divided optimizer by
// CheckpointWriters::find() in the run folder, else rank 0. Rank 0 logs a note if it must write for
// others. Every process calls it at the same point.
CheckpointWriters find_writers(Processes& processes, const OptimizerShards& shards,
                               const RunFolder& run);

class SharedSave {
 public:
  // All references but `config` must outlive this object. `run` is the folder of rank 0.
  SharedSave(Processes& processes, OptimizerShards& shards, CheckpointWriters writers,
             const RunFolder& run, const CheckpointTexts& texts, const ParameterLayout& layout,
             const CheckpointConfig& config);

  // Returns whether this process writes, and so calls write() and not only snapshot().
  bool writes() const { return writers_.writes(processes_.rank()); }
  // Returns the state and the tensors that this process writes. Every process calls it, and sends
  // its tensors to their writer. checkpoint.async decides whether the tensors are copies
  // (OptimizerShards::collect_masters).
  CheckpointSnapshot snapshot(const TrainingState& state, const Parameters& parameters,
                              const Optimizer& optimizer) const;
  // Returns a name for the next attempt to save; nothing unless `is_wanted`. With a divided
  // optimizer every process calls it, and all get rank 0's answer.
  std::optional<std::string> new_attempt(bool is_wanted) const;
  // Writes the tensors of the snapshot. Rank 0 then waits for the other writers, and publishes the
  // checkpoint; after an error it publishes nothing. Any thread may call it. Throws:
  //   in rank 0   the errors of write_checkpoint; another writer's error, with the writer's name
  //   in another  ProcessLost only
  void write(const std::string& attempt, const CheckpointSnapshot& snapshot) const;
  // Rank 0 calls this in place of write(). The other writers then write nothing.
  void call_off(const std::string& attempt) const;

 private:
  void lead(const std::string& attempt, const CheckpointSnapshot& snapshot) const;
  void follow(const std::string& attempt, const CheckpointSnapshot& snapshot) const;
  void tell_folder(const std::string& attempt, const std::string& folder) const;
  // Writes rank 0's tensors, waits for the other writers, and returns size and CRC-32C of each
  // whole file.
  std::map<std::string, ManifestEntry> write_with_others(const std::string& attempt,
                                                         const std::filesystem::path& folder,
                                                         const CheckpointSnapshot& snapshot) const;

  Processes& processes_;
  OptimizerShards& shards_;
  CheckpointWriters writers_;
  const RunFolder& run_;
  const CheckpointTexts& texts_;
  const ParameterLayout& layout_;
  CheckpointConfig config_;
  std::optional<DividedFiles> files_;  // empty when rank 0 writes alone
};

}  // namespace lmtrain
