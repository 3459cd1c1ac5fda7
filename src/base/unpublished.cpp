#include "base/unpublished.h"

#include <unistd.h>

#include <system_error>

#include "base/absolute_path.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

using Existing = Unpublished::Existing;

// Throws where what is written, a file or a folder, could not be moved to `target`.
void require_free(const fs::path& target, FileKind written, Existing existing) {
  const FileKind kind = examine(target).kind;
  std::error_code error;
  const bool is_dead_link = kind == FileKind::kMissing && fs::is_symlink(target, error);
  if (kind == FileKind::kMissing && !is_dead_link) return;
  if (kind == FileKind::kFile && existing == Existing::kIsReplaced) return;
  const bool is_folder = kind == FileKind::kFolder;
  if (is_folder && written == FileKind::kFolder && list_folder(target).empty()) return;
  throw Error(
      ErrorKind::kUsage,
      str(shown(target),
          is_dead_link                              ? " is a link that leads nowhere"
          : is_folder && written == FileKind::kFile ? " is a folder, and a file is to be written"
          : is_folder                               ? " is a folder that is not empty"
                                                    : " is there already",
          "; nothing is overwritten: give another path, or remove it first"));
}

// The path without a slash at its end, which names the same. A folder cannot be renamed to a link,
// so a link to a folder is followed.
fs::path place_of(const fs::path& path) {
  const fs::path whole = absolute_path(path);
  const fs::path place = whole.has_filename() ? whole : whole.parent_path();
  std::error_code error;
  const fs::path followed = is_folder(place) ? fs::canonical(place, error) : place;
  return error ? place : followed;
}

}  // namespace

Unpublished::Unpublished(const fs::path& target, FileKind kind, Existing existing)
    : target_(place_of(target)), kind_(kind), existing_(existing) {
  require_free(target_, kind_, existing_);
  const fs::path folder = target_.parent_path();
  lmtrain::create_directories(folder);
  const std::string name = str(".", target_.filename().string(), ".tmp-", ::getpid());
  path_ = folder / name;
  for (int i = 1; is_there(path_); ++i) path_ = folder / str(name, "-", i);
}

Unpublished::~Unpublished() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void Unpublished::publish() {
  require_free(target_, kind_, existing_);
  if (is_folder(path_)) sync_directory(path_);
  publish_rename(path_, target_);
}

void replace_file_of_user(const fs::path& target, std::string_view bytes) {
  Unpublished file(target, FileKind::kFile, Unpublished::Existing::kIsReplaced);
  write_file_synced(file.path(), bytes);
  file.publish();
}

}  // namespace lmtrain
