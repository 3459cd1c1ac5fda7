#include "base/examine.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/open_file.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

// Returns false when nothing is at the path.
bool look_at(const fs::path& path, struct stat& info) {
  Retry retry;
  while (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return false;
    // Links that lead to each other lead to nothing; a name that is too long names nothing.
    if (error == ELOOP || error == ENAMETOOLONG) return false;
    if (!retry.again(error)) fail_on_file("examine", path, error);
  }
  return true;
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// One attempt; `error` is 0 when the list is whole.
std::vector<std::string> read_folder(const fs::path& folder, int& error) {
  std::vector<std::string> names;
  errno = 0;
  const std::unique_ptr<DIR, CloseFolder> open(::opendir(folder.c_str()));
  error = errno;
  if (!open) return names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    error = errno;
    if (entry == nullptr) return names;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

// Returns nothing when the folder is missing.
std::optional<std::vector<std::string>> names_in(const fs::path& folder) {
  Retry retry;
  for (;;) {
    int error = 0;
    std::vector<std::string> names = read_folder(folder, error);
    if (error == 0) {
      std::sort(names.begin(), names.end());
      return names;
    }
    if (error == ENOENT) return std::nullopt;
    if (!retry.again(error)) fail_on_file("list the folder", folder, error);
  }
}

}  // namespace

FileInfo examine(const fs::path& path) {
  struct stat info {};
  if (!look_at(path, info)) return {};
  FileKind kind = FileKind::kOther;
  if (S_ISREG(info.st_mode)) kind = FileKind::kFile;
  if (S_ISDIR(info.st_mode)) kind = FileKind::kFolder;
  return {kind, static_cast<uint64_t>(info.st_size),
          info.st_mtim.tv_sec * kNanosecondsPerSecond + info.st_mtim.tv_nsec,
          static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino)};
}

bool is_there(const fs::path& path) { return examine(path).kind != FileKind::kMissing; }
bool is_file(const fs::path& path) { return examine(path).kind == FileKind::kFile; }
bool is_folder(const fs::path& path) { return examine(path).kind == FileKind::kFolder; }

void require_there(const fs::path& path) {
  if (!is_there(path)) throw Error(ErrorKind::kData, str(shown(path), " is missing"));
}

std::string file_kind_name(const fs::path& path) {
  struct stat info {};
  if (!look_at(path, info)) return "missing";
  if (S_ISREG(info.st_mode)) return "a file";
  if (S_ISDIR(info.st_mode)) return "a folder";
  if (S_ISFIFO(info.st_mode)) return "a pipe";
  if (S_ISSOCK(info.st_mode)) return "a socket";
  return "a device";
}

bool is_link(const fs::path& path) {
  struct stat info {};
  Retry retry;
  while (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    if (!retry.again(errno)) fail_on_file("examine", path, errno);
  }
  return S_ISLNK(info.st_mode);
}

std::vector<std::string> list_folder(const fs::path& folder) {
  std::optional<std::vector<std::string>> names = names_in(folder);
  if (!names) fail_on_file("list the folder", folder, ENOENT);
  return *std::move(names);
}

std::vector<std::string> list_folder_if_there(const fs::path& folder) {
  return names_in(folder).value_or(std::vector<std::string>());
}

std::string why_not_writable(const fs::path& folder) {
  Retry retry;
  while (::access(folder.c_str(), W_OK | X_OK) != 0)
    if (!retry.again(errno)) return std::generic_category().message(errno);
  return "";
}

fs::path with_suffix(fs::path path, const char* suffix) {
  path += suffix;
  return path;
}

fs::path without_final_slash(const fs::path& path) {
  return path.has_filename() || !path.has_relative_path() ? path : path.parent_path();
}

fs::path absolute_path(const fs::path& path) {
  const fs::path whole = fs::absolute(path);
  fs::path head, tail;  // up to the last "..", and behind it
  for (const fs::path& part : whole) {
    tail /= part;
    if (part == "..") head /= std::exchange(tail, {});
  }
  std::error_code error;
  const fs::path shorter = head.lexically_normal();
  if (head.empty() || fs::equivalent(head, shorter, error)) return whole.lexically_normal();
  const fs::path resolved = fs::canonical(head, error);
  return ((error ? shorter : resolved) / tail).lexically_normal();
}

}  // namespace lmtrain
