// manifest.json of a checkpoint (docs/formats/checkpoint.md) has size and CRC-32C of every file,
// and a checksum of the manifest itself. It is written last, so a folder without one is unfinished.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace lmtrain {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr int kManifestVersion = 1;
// The files of a checkpoint that only training needs.
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";

struct ManifestEntry {
  uint64_t size = 0;
  uint32_t crc32c = 0;
  bool operator==(const ManifestEntry&) const = default;
};

struct Manifest {
  int64_t step = 0;
  std::string fingerprint{};  // identifies the training data, Hash128 hex; empty when unknown
  std::string program{};      // "lmtrain 0.1.0"
  std::map<std::string, ManifestEntry> files{};  // by plain file name; never manifest.json itself
  bool operator==(const Manifest&) const = default;
};

// Returns the text of manifest.json, with its own checksum.
std::string manifest_to_text(const Manifest& manifest);
// Throws Error(kCheckpoint), naming `origin`, for any text but a manifest of this version whose own
// checksum is right. File names that would leave the folder (a path separator, "..", NUL) are
// refused.
Manifest parse_manifest(std::string_view text, const std::string& origin);
// Parses the manifest of `folder`. Throws also Error(kIo).
Manifest read_manifest(const std::filesystem::path& folder);

// Writes manifest.json into `folder`, atomically over an old one, and syncs both. Call it when all
// other files are synced. Requires plain file names and step >= 0, which parse_manifest() checks
// and this does not. Throws Error(kIo).
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// Reads the manifest of `folder`, checks size and CRC of the files that it lists, with constant
// memory, and returns it. Files that it does not list are ignored. With `skip_training_state`
// kOptimizerFile and kStateFile are not checked: eval, generate and init_from need neither. Throws
// Error(kCheckpoint) that names the file and what is wrong, a missing manifest too; Error(kUsage)
// where the folder does not exist; Error(kIo) where the file system refuses.
Manifest verify_checkpoint_files(const std::filesystem::path& folder, bool skip_training_state);

}  // namespace lmtrain
