// The files of a run folder (docs/formats/run_folder.md) and who may write to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/examine.h"
#include "base/files/file.h"

namespace lmtrain {

// The name of what belongs to a step: step_00001000.
std::string step_name(int64_t step);

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.json"; }
  std::filesystem::path status() const { return path_ / "status.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path events() const { return path_ / "events.jsonl"; }
  std::filesystem::path log() const { return path_ / "train.log"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path config_history() const { return path_ / "config_history"; }
  // Of random restart.
  std::filesystem::path trials() const { return path_ / "trials"; }
  // checkpoints/step_00001000
  std::filesystem::path checkpoint(int64_t step) const;
  // checkpoints/.tmp-step_00001000
  std::filesystem::path unfinished_checkpoint(int64_t step) const;

  // A folder holds a run once its config.json exists.
  bool holds_run() const { return is_there(config()); }
  // Steps of the checkpoints that were published, newest first. Error(kIo) when the folder is there
  // and cannot be listed.
  std::vector<int64_t> checkpoint_steps() const;
  // Removes what a killed process left unfinished.
  void remove_unfinished() const;
  // Creates the folder and takes its lock. Error(kUsage) when another process holds it.
  FileLock lock() const;

 private:
  std::filesystem::path path_;
};

}  // namespace lmtrain
