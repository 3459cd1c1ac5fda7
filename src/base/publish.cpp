#include "base/publish.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/open_file.h"
#include "base/text.h"

namespace lmtrain {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kReplacedPrefix = ".replaced-";

fs::path replaced_path(const fs::path& folder) {
  return folder.parent_path() / str(kReplacedPrefix, folder.filename().string());
}

// A link that leads to nothing is something too.
bool holds_anything(const fs::path& path) { return is_link(path) || is_there(path); }

// Returns false where the file system cannot exchange, or nothing is at `to`.
bool exchange(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return true;
  const int error = errno;
  if (error != ENOENT && error != EINVAL && error != ENOSYS && error != EOPNOTSUPP)
    fail_on_file(str("exchange ", shown(from), " with"), to, error);
  return false;
}

}  // namespace

// Without an exchange the old folder is first moved aside, and removed at the end.
void replace_folder(const fs::path& from, const fs::path& to) {
  if (exchange(from, to)) {
    sync_directory(to.parent_path());
    remove_tree(from);
    return;
  }
  if (!holds_anything(to)) {
    publish_rename(from, to);
    return;
  }
  const fs::path old = replaced_path(to);
  remove_tree(old);
  publish_rename(to, old);
  try {
    publish_rename(from, to);
  } catch (const Error&) {
    if (!holds_anything(to)) publish_rename(old, to);
    throw;
  }
  remove_tree(old);
}

void put_back_replaced(const fs::path& parent) {
  for (const std::string& name : list_folder_if_there(parent)) {
    if (!name.starts_with(kReplacedPrefix)) continue;
    const fs::path to = parent / name.substr(kReplacedPrefix.size());
    if (holds_anything(to)) {
      remove_tree(parent / name);
    } else {
      publish_rename(parent / name, to);
    }
  }
}

namespace {

using Existing = Unpublished::Existing;

// Throws where `written`, a file or a folder, could not be moved to `target`.
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

// Returns the absolute path without a slash at its end. A folder cannot be renamed to a link, so it
// follows a link to a folder.
fs::path place_of(const fs::path& path) {
  const fs::path place = without_final_slash(absolute_path(path));
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
