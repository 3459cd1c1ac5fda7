#include "formats/manifest.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/text.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kLargestManifest = 16 << 20;
constexpr const char* kAdvice =
    "the checkpoint is damaged: use an older one, or copy this one again from where it is whole";

[[noreturn]] void fail_manifest(const std::string& origin, const std::string& what) {
  throw Error(ErrorKind::kCheckpoint, str(origin, ": ", what, "; ", kAdvice));
}

// Accepts only what crc_to_text() writes: eight hex digits in lower case.
uint32_t crc_from_text(const std::string& text, const std::string& origin) {
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fail_manifest(origin, str("the checksum ", quote(text), " is not eight hexadecimal digits"));
  }
  return static_cast<uint32_t>(std::stoul(text, nullptr, 16));
}

json to_json(const Manifest& manifest) {
  json files = json::object();
  for (const auto& [name, entry] : manifest.files) {
    files[name] = {{"size", entry.size}, {"crc32c", crc_to_text(entry.crc32c)}};
  }
  return {{"version", kManifestVersion},
          {"step", manifest.step},
          {"fingerprint", manifest.fingerprint},
          {"program", manifest.program},
          {"files", std::move(files)}};
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name != kManifestFile &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

uint64_t number_from_json(const json& value, const std::string& what, const std::string& origin) {
  if (!value.is_number_unsigned()) fail_manifest(origin, str(what, " is no whole number"));
  return value.get<uint64_t>();
}

std::string text_from_json(const json& value, const std::string& what, const std::string& origin) {
  if (!value.is_string()) fail_manifest(origin, str(what, " is no string"));
  return value.get<std::string>();
}

const json& member(const json& object, const char* key, const std::string& origin) {
  const auto found = object.find(key);
  if (found == object.end()) fail_manifest(origin, str("the field ", quote(key), " is missing"));
  return *found;
}

void check_file(const fs::path& path, const ManifestEntry& expected) {
  const FileInfo info = examine(path);
  if (info.kind == FileKind::kMissing)
    fail_manifest(shown(path), "is missing, though the manifest lists it");
  if (info.kind != FileKind::kFile) fail_manifest(shown(path), "is no regular file");
  // A wrong size is told without reading.
  if (info.size != expected.size) {
    fail_manifest(shown(path), str("has ", info.size, " bytes, the manifest says ", expected.size));
  }
  const FileSum sum = sum_file(path);
  if (sum != FileSum{expected.size, expected.crc32c}) {
    fail_manifest(shown(path), str("has CRC-32C ", crc_to_text(sum.crc), " over ", sum.size,
                                   " bytes, the manifest says ", crc_to_text(expected.crc32c),
                                   " over ", expected.size));
  }
}

}  // namespace

std::string manifest_to_text(const Manifest& manifest) {
  return checked_json_text(to_json(manifest));
}

Manifest parse_manifest(std::string_view text, const std::string& origin) {
  const JsonSource source{
      .kind = ErrorKind::kCheckpoint, .origin = origin, .advice = kAdvice, .max_depth = 4};
  json fields = parse_strict_json(text, source);
  if (!fields.is_object()) fail_manifest(origin, "is no JSON object");
  // Checks the version first: another version may have another rule for the checksum.
  const uint64_t version = number_from_json(member(fields, "version", origin), "version", origin);
  if (version != kManifestVersion) {
    throw Error(ErrorKind::kCheckpoint,
                str(origin, ": is of version ", version, ", this lmtrain reads version ",
                    kManifestVersion, "; use the lmtrain that wrote it"));
  }
  take_checksum(fields, source);

  Manifest manifest;
  const uint64_t step = number_from_json(member(fields, "step", origin), "step", origin);
  if (!std::in_range<int64_t>(step)) fail_manifest(origin, str("the step ", step, " is too large"));
  manifest.step = static_cast<int64_t>(step);
  manifest.fingerprint =
      text_from_json(member(fields, "fingerprint", origin), "fingerprint", origin);
  manifest.program = text_from_json(member(fields, "program", origin), "program", origin);
  const json& files = member(fields, "files", origin);
  if (!files.is_object()) fail_manifest(origin, "files is no object");
  for (const auto& [name, entry] : files.items()) {
    if (!is_plain_name(name))
      fail_manifest(origin, str("the file name ", quote(name), " is not allowed"));
    if (!entry.is_object())
      fail_manifest(origin, str("the entry of ", quote(name), " is no object"));
    const std::string crc = text_from_json(member(entry, "crc32c", origin), "crc32c", origin);
    manifest.files[name] = {number_from_json(member(entry, "size", origin), "size", origin),
                            crc_from_text(crc, origin)};
  }
  return manifest;
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path file = folder / kManifestFile;
  return parse_manifest(read_file(file), shown(file));
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  write_file_atomic(folder / kManifestFile, manifest_to_text(manifest));
}

Manifest verify_checkpoint_files(const fs::path& folder, bool skip_training_state) {
  if (!is_there(folder)) {
    throw Error(ErrorKind::kUsage, str(shown(folder), ": does not exist"));
  }
  const fs::path path = folder / kManifestFile;
  const FileInfo info = examine(path);
  if (info.kind == FileKind::kMissing) {
    throw Error(ErrorKind::kCheckpoint, str(shown(folder), ": has no ", kManifestFile,
                                            ", so it was never finished; use another checkpoint"));
  }
  if (info.kind != FileKind::kFile || info.size > kLargestManifest) {
    fail_manifest(shown(path), str("is no file of at most ", format_bytes(kLargestManifest)));
  }
  Manifest manifest = read_manifest(folder);
  for (const auto& [name, entry] : manifest.files) {
    if (skip_training_state && (name == kOptimizerFile || name == kStateFile)) continue;
    check_file(folder / name, entry);
  }
  return manifest;
}

}  // namespace lmtrain
