#include "e2e/tamper.h"

#include <deque>

#include "base/file.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// Replaces a file of the checkpoint and says so in its manifest.
void replace(const fs::path& checkpoint, const std::string& name,
             const std::function<void(FileWriter&)>& write) {
  Manifest manifest =
      parse_manifest(read_file(checkpoint / kManifestFile), "the checkpoint to tamper with");
  const fs::path temporary = checkpoint / "tampered";
  FileWriter writer(temporary);
  write(writer);
  writer.finish();
  manifest.files.at(name) = {writer.size(), writer.crc()};
  publish_rename(temporary, checkpoint / name);
  fs::remove(checkpoint / kManifestFile);
  write_manifest(checkpoint, manifest);
}

}  // namespace

void change_state(const fs::path& checkpoint, const std::function<void(Json& state)>& change) {
  Json state = Json::parse(read_file(checkpoint / kStateFile));
  change(state);
  replace(checkpoint, kStateFile, [&](FileWriter& writer) { writer.write(state.dump(2) + "\n"); });
}

void zero_moments(const fs::path& checkpoint, const std::string& prefix) {
  const SafetensorsFile file(checkpoint / kOptimizerFile);
  std::deque<std::string> zeros;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, view] : file.tensors()) {
    const void* data = view.bytes.data();
    if (name.starts_with(prefix)) data = zeros.emplace_back(view.bytes.size(), '\0').data();
    tensors.push_back({name, view.dtype, view.shape, data});
  }
  replace(checkpoint, kOptimizerFile,
          [&](FileWriter& writer) { write_safetensors(writer, tensors, file.metadata()); });
}

void rewrite_unchanged(const fs::path& checkpoint) {
  change_state(checkpoint, [](Json&) {});
  zero_moments(checkpoint, "no tensor begins like this");
}

void flip_bit(const fs::path& file, int64_t offset) {
  std::string bytes = read_file(file);
  if (offset < 0) offset += static_cast<int64_t>(bytes.size());
  bytes.at(static_cast<size_t>(offset)) ^= 1;
  replace_file(file, bytes);
}

}  // namespace lmtrain::testing
