#include "run/copy_checkpoint.h"

#include "base/error.h"
#include "base/text.h"
#include "formats/manifest.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

FileSum copy_synced(const fs::path& from, const fs::path& to) {
  const MappedFile source(from);
  FileWriter writer(to);
  writer.write(source.bytes());
  writer.finish();
  return {writer.size(), writer.crc()};
}

}  // namespace

void copy_checkpoint(const RunFolder& from, int64_t step, const RunFolder& to) {
  const fs::path source = from.checkpoint(step);
  const fs::path copy = to.unfinished_checkpoint(step);
  remove_tree(copy);
  lmtrain::create_directories(copy);
  const fs::path manifest_file = source / kManifestFile;
  const Manifest manifest = parse_manifest(read_file(manifest_file), manifest_file.string());
  uint64_t bytes = 0;
  for (const auto& [name, entry] : manifest.files) bytes += entry.size;
  require_free_space(copy, bytes, "a copy of a checkpoint");
  for (const auto& [name, entry] : manifest.files) {
    const FileSum copied = copy_synced(source / name, copy / name);
    if (copied == FileSum{entry.size, entry.crc32c}) continue;
    throw Error(
        ErrorKind::kCheckpoint,
        str((source / name).string(), " is not as its manifest says; take another checkpoint"));
  }
  write_manifest(copy, manifest);
  // The metrics that belong to the checkpoint are on disk before it.
  if (is_there(from.metrics())) write_file_atomic(to.metrics(), MappedFile(from.metrics()).bytes());
  remove_tree(to.checkpoint(step));
  publish_rename(copy, to.checkpoint(step));
}

}  // namespace lmtrain
