// The files of a run folder (docs/formats/run_folder.md), which run it holds, and who may write to
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/examine.h"
#include "checkpoint/run_identity.h"
#include "checkpoint/run_lock.h"

namespace lmtrain {

// The name of what belongs to a step: step_00001000.
std::string step_name(int64_t step);

class RunFolder {
 public:
  // Without an identity it is not asked which run a checkpoint is of.
  explicit RunFolder(std::filesystem::path path, RunIdentity identity = {})
      : path_(std::move(path)), identity_(std::move(identity)) {}

  const std::filesystem::path& path() const { return path_; }
  const RunIdentity& identity() const { return identity_; }
  std::filesystem::path config() const { return path_ / "config.json"; }
  std::filesystem::path status() const { return path_ / "status.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path events() const { return path_ / "events.jsonl"; }
  std::filesystem::path log() const { return path_ / "train.log"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path config_history() const { return path_ / "config_history"; }
  // The folder of the trials of random restart.
  std::filesystem::path trials() const { return path_ / "trials"; }
  // checkpoints/step_00001000
  std::filesystem::path checkpoint(int64_t step) const;
  // checkpoints/.tmp-step_00001000
  std::filesystem::path unfinished_checkpoint(int64_t step) const;

  // A folder holds a run once its config.json exists.
  bool holds_run() const { return is_there(config()); }
  // Error(kIo) when the folder is gone: it was deleted or moved while the run was trained. A
  // process that trains asks before it creates a folder in it, so that it never begins the folder
  // anew.
  void require_there() const;
  // Steps of the checkpoints that were published, newest first. Error(kIo) when the folder is there
  // and cannot be listed.
  std::vector<int64_t> checkpoint_steps() const;
  // Removes what a killed process left unfinished.
  void remove_unfinished() const;
  // Creates the folder and takes its lock. Error(kUsage) when another process holds it.
  RunLock lock() const;

 private:
  std::filesystem::path path_;
  RunIdentity identity_;
};

}  // namespace lmtrain
