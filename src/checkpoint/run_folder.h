// A RunFolder knows the files of a run folder (docs/formats/run_folder.md), which run it holds, and
// who may write to it.
//
// A run has an id: 128 random bits, drawn when it begins (base/random.h). Its config.json holds the
// id at /identity/run, and state.json of each of its checkpoints at /run. A run never goes on from
// a checkpoint with another id. No result depends on the id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/examine.h"
#include "base/file.h"
#include "base/open_file.h"
#include "base/publish.h"

namespace lmtrain {

inline constexpr const char* kIdentityKey = "identity";

// Names the checkpoint of another run at which a branch begins.
struct BranchPoint {
  std::string run;                // the other run's id; empty: it has none
  std::filesystem::path run_dir;  // the other run's folder when the branch began
  int64_t step = 0;
  bool operator==(const BranchPoint&) const = default;
};

struct RunIdentity {
  std::string id{};  // 32 hexadecimal digits
  std::optional<BranchPoint> branch_of{};
  std::string init_from{};  // digest of the weights of init_from; empty without them
  bool operator==(const RunIdentity&) const = default;
};

// Returns the value of the key "identity" in a run's config.json.
nlohmann::ordered_json identity_json(const RunIdentity& identity);
// Returns the identity in a run's config.json; an empty one if the key is missing or its value
// malformed.
RunIdentity identity_in(const nlohmann::json& config);

// Returns "step_00001000" for 1000: at least 8 digits.
std::string step_name(int64_t step);

// A RunLock lets one process at a time write in a run folder. It holds the lock until it is
// destroyed, or the process dies.
//
// It locks twice, by flock: the folder itself, since a user may delete a file .lock, and the file
// .lock in it, since some file systems (NFS) cannot lock folders.
class RunLock {
 public:
  // Takes the lock without waiting. Returns false if another process holds it. `folder` must exist.
  // Throws Error(kIo).
  bool try_acquire(const std::filesystem::path& folder);

 private:
  std::unique_ptr<Descriptor> folder_;
  FileLock file_;
};

class RunFolder {
 public:
  // Creates and reads nothing. With an empty identity, checkpoints of any run pass as its own.
  explicit RunFolder(std::filesystem::path path, RunIdentity identity = {})
      : path_(std::move(path)), identity_(std::move(identity)) {}

  const std::filesystem::path& path() const { return path_; }
  const RunIdentity& identity() const { return identity_; }
  std::filesystem::path config() const { return path_ / "config.json"; }
  std::filesystem::path status() const { return path_ / "status.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path events() const { return path_ / "events.jsonl"; }
  std::filesystem::path log() const { return path_ / "train.log"; }
  std::filesystem::path data_files() const { return path_ / "data_files.json"; }
  std::filesystem::path data_totals() const { return path_ / "data_totals.json"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path config_history() const { return path_ / "config_history"; }
  // The folder that holds one folder for each trial of random restart.
  std::filesystem::path trials() const { return path_ / "trials"; }
  // checkpoints/step_00001000
  std::filesystem::path checkpoint(int64_t step) const;
  // checkpoints/.tmp-step_00001000; with the name of an `attempt`, .tmp-step_00001000-ATTEMPT
  std::filesystem::path unfinished_checkpoint(int64_t step, const std::string& attempt = "") const;

  // Returns whether config.json exists. Throws Error(kIo) if the system cannot tell.
  bool holds_run() const { return is_there(config()); }
  // Throws Error(kIo) if the folder is gone: a user deleted or moved it. Call this before creating
  // a folder in it, so that no process creates the run folder anew.
  void require_there() const;
  // Returns the steps of the published checkpoints, newest first, damaged ones too. Throws
  // Error(kIo) if checkpoints() exists and cannot be listed.
  std::vector<int64_t> checkpoint_steps() const;
  // Removes the unfinished checkpoints that a killed process left. The lock must be held. Throws
  // Error(kIo).
  void remove_unfinished() const;
  // Puts back a checkpoint that a killed process had moved aside (base/publish.h). The
  // lock must be held.
  void put_back_replaced() const { lmtrain::put_back_replaced(checkpoints()); }
  // Creates the folder if it is missing, takes its lock, and calls put_back_replaced(). Throws
  // Error(kUsage) if another process holds the lock, and Error(kIo).
  RunLock lock() const;

 private:
  std::filesystem::path path_;
  RunIdentity identity_;
};

// Throws Error(kUsage) if a model written to this path would pass for a checkpoint of a run: it
// lies in the run's checkpoints, with the name of one or of an unfinished one.
void require_no_checkpoint_path(const std::filesystem::path& path);

// Returns whether the folder has a manifest.json, a state.json or an optimizer.safetensors.
bool is_checkpoint_folder(const std::filesystem::path& folder);

}  // namespace lmtrain
