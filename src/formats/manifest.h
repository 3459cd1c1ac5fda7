// manifest.json of a checkpoint (docs/formats/checkpoint.md) has size and CRC-32C of every file,
// and a checksum of itself. It is written last, so a folder without manifest.json is unfinished.
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
// Throws Error(kCheckpoint), naming `origin`: no manifest, another version, a wrong checksum of its
// own, a file name that would leave the folder (a path separator, "..", NUL).
Manifest parse_manifest(std::string_view text, const std::string& origin);
// Parses the manifest of `folder`. Also throws Error(kIo), and Error(kData) as read_file() does.
Manifest read_manifest(const std::filesystem::path& folder);

// Writes manifest.json into `folder`, atomically over an old one, and syncs both. Call it when all
// other files are synced. Requires plain file names and step >= 0, and checks neither. Throws
// Error(kIo).
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// Reads the manifest of `folder`, checks size and CRC of the files that it lists, and returns it.
// Memory is constant. With `skip_training_state` it does not check kOptimizerFile and kStateFile,
// which eval, generate and init_from do not need. Throws Error(kCheckpoint) that names the file for
// a missing manifest and for whatever is wrong, Error(kUsage) where the folder does not exist,
// Error(kIo).
Manifest verify_checkpoint_files(const std::filesystem::path& folder, bool skip_training_state);

}  // namespace lmtrain
