#include "base/replace_folder.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/link.h"
#include "base/open_file.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

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

}  // namespace lmtrain
