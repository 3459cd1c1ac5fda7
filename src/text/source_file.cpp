#include "text/source_file.h"

#include "base/error.h"
#include "base/examine.h"
#include "base/text.h"

namespace lmtrain {
namespace fs = std::filesystem;

SourceFile source_file(const fs::path& path, size_t source) {
  const FileInfo info = examine(path);
  if (info.kind != FileKind::kFile) {
    throw Error(ErrorKind::kData, str(shown(path), " was found and is now ", file_kind_name(path),
                                      "; run the command again"));
  }
  return {path, info.size, info.mtime_ns, static_cast<int32_t>(source)};
}

void fail_large_document(const std::string& where, std::string_view what, uint64_t max_document,
                         std::string_view advice) {
  throw Error(ErrorKind::kData,
              str(where, ": ", what, " of more than ", format_bytes(max_document),
                  " (data.max_document); ", advice,
                  "split or remove it, or raise data.max_document where memory holds several "
                  "times as much"));
}

void require_unchanged(const SourceFile& file) {
  const SourceFile now = source_file(file.path);
  if (now.size != file.size || now.mtime_ns != file.mtime_ns) fail_changed_file(file.path);
}

void fail_changed_file(const fs::path& path) {
  throw Error(
      ErrorKind::kData,
      str(shown(path), ": changed while it was read; run the command again once it is complete"));
}

}  // namespace lmtrain
