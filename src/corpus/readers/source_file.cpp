#include "corpus/readers/source_file.h"

#include "base/error.h"
#include "base/files/examine.h"
#include "base/text.h"

namespace lmtrain {
namespace fs = std::filesystem;

SourceFile source_file(const fs::path& path, double weight, size_t source) {
  const FileInfo info = examine(path);
  if (info.kind != FileKind::kFile) {
    throw Error(ErrorKind::kData, str(path.string(), " was found and is now ", file_kind_name(path),
                                      "; run the command again"));
  }
  return {path, info.size, info.mtime_ns, weight, static_cast<int32_t>(source)};
}

void require_unchanged(const SourceFile& file) {
  const SourceFile now = source_file(file.path, file.weight, 0);
  if (now.size == file.size && now.mtime_ns == file.mtime_ns) return;
  throw Error(ErrorKind::kData, str(file.path.string(),
                                    ": changed while it was read; run the command again once it "
                                    "is complete"));
}

}  // namespace lmtrain
