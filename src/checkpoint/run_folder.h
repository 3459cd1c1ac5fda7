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

// The checkpoint of another run that a branch begins at.
struct BranchPoint {
  std::string run;                // the other run's id; empty where it has none
  std::filesystem::path run_dir;  // the other run's folder when the branch began
  int64_t step = 0;
  bool operator==(const BranchPoint&) const = default;
};

struct RunIdentity {
  std::string id{};  // 32 hexadecimal digits
  std::optional<BranchPoint> branch_of{};
  std::string init_from{};  // digest of the weights that the run was given; empty without any
  bool operator==(const RunIdentity&) const = default;
};

// Returns the value of the key "identity", for a run's config.json.
nlohmann::ordered_json identity_json(const RunIdentity& identity);
// Returns the identity in a run's config.json; an empty one when the key is missing or its value is
// no identity. Never throws.
RunIdentity identity_in(const nlohmann::json& config);

// Returns the name of what belongs to a step: "step_00001000" for 1000. Larger steps have more than
// 8 digits.
std::string step_name(int64_t step);

// A RunLock lets one process at a time write in a run folder.
//
// It is taken twice, by flock on the folder itself and on the file .lock in it. A user may delete
// .lock while the run is trained, but not the folder without its run. The file serves where a file
// system cannot lock folders (NFS). The lock is released when the object is destroyed or the
// process dies.
class RunLock {
 public:
  // Takes the lock without waiting. Returns false when another process holds it. `folder` must
  // exist. Throws Error(kIo) when the system refuses.
  bool try_acquire(const std::filesystem::path& folder);

 private:
  std::unique_ptr<Descriptor> folder_;
  FileLock file_;
};

class RunFolder {
 public:
  // Creates and reads nothing. With an empty identity nobody checks which run a checkpoint belongs
  // to.
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

  // A folder holds a run once its config.json exists.
  bool holds_run() const { return is_there(config()); }
  // Throws Error(kIo) when the folder is gone: it was deleted or moved while the run was trained. A
  // process that trains calls this before it creates a folder in it, so that it never creates the
  // run folder anew.
  void require_there() const;
  // Returns the steps of the checkpoints that were published, newest first; whether they are
  // damaged is not looked at. Throws Error(kIo) when checkpoints() exists and cannot be listed.
  std::vector<int64_t> checkpoint_steps() const;
  // Removes the unfinished checkpoints that a killed process left. The lock must be held. Throws
  // Error(kIo).
  void remove_unfinished() const;
  // Puts back a checkpoint that a killed process had moved aside (base/publish.h). The
  // lock must be held.
  void put_back_replaced() const { lmtrain::put_back_replaced(checkpoints()); }
  // Creates the folder if need be, takes its lock, and calls put_back_replaced(). Throws
  // Error(kUsage) when another process holds the lock.
  RunLock lock() const;

 private:
  std::filesystem::path path_;
  RunIdentity identity_;
};

// Whether the folder has a manifest.json, a state.json or an optimizer.safetensors.
bool is_checkpoint_folder(const std::filesystem::path& folder);

}  // namespace lmtrain
