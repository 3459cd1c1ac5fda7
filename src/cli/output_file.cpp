#include "cli/output_file.h"

#include <string>

#include "base/error.h"
#include "base/examine.h"
#include "base/read_file.h"
#include "base/text.h"

namespace lmtrain {

namespace fs = std::filesystem;

void require_place_of(const OutputKind& kind, const fs::path& path) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(ErrorKind::kUsage, str(kind.option, " ", path.string(), ": ", problem));
  };
  const FileInfo info = examine(path);
  if (info.kind == FileKind::kFolder)
    refuse("is a folder; give a file in it: " + shell_quoted((path / kind.name).string()));
  if (info.kind == FileKind::kOther)
    refuse("is " + file_kind_name(path) + "; give the path of a file");
  if (info.kind == FileKind::kFile && info.size > 0 && !file_begins_with(path, kind.beginning))
    refuse(str("is there already and is no ", kind.what, "; give another path, or remove it"));
  const fs::path folder = absolute_path(path).parent_path();
  if (!is_folder(folder)) {
    refuse(is_there(folder) ? folder.string() + " is no folder"
                            : str("there is no folder ", folder.string(),
                                  "; make it with: mkdir -p ", shell_quoted(folder.string())));
  }
}

}  // namespace lmtrain
