#include "e2e/fault_library/undo_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "e2e/fault_library/faults.h"

namespace lmtrain::faults {
namespace {

namespace fs = std::filesystem;

fs::path path_of_descriptor(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

std::pair<dev_t, ino_t> id_of(int fd) {
  struct stat info {};
  ::fstat(fd, &info);
  return {info.st_dev, info.st_ino};
}

// The folder of a path and the last name in it.
std::pair<std::string, std::string> split(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {path.substr(0, std::max<size_t>(slash, 1)), path.substr(slash + 1)};
}

// errno as it was: the program looks at that of its own call alone.
class KeepErrno {
 public:
  ~KeepErrno() { errno = error_; }

 private:
  int error_ = errno;
  Own own_;
};

}  // namespace

UndoLog& undo_log() {
  static auto* one = new UndoLog;  // outlives whatever calls at the end
  return *one;
}

fs::path UndoLog::Name::path() const { return path_of_descriptor(folder) / name; }

void UndoLog::begin(const fs::path& limbo) {
  *this = UndoLog();
  limbo_ = limbo;
}

UndoLog::Name UndoLog::name_of(int folder, const char* path) {
  const auto [parent, name] = split(path);
  const int fd = ::openat(folder, parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  const FileId id = id_of(fd);
  const auto [known, is_new] = folders_.try_emplace(id, fd);
  if (!is_new) ::close(fd);
  return {id, known->second, name};
}

void UndoLog::keep_content(int opened) {
  if (opened < 0) return;
  const auto [known, is_new] = contents_.try_emplace(id_of(opened));
  if (!is_new) {
    ::close(opened);
    return;
  }
  known->second.fd = opened;
  std::array<char, 65536> buffer{};
  std::string& bytes = known->second.bytes;
  for (ssize_t got = 1; got > 0;) {
    got = ::pread(opened, buffer.data(), buffer.size(), static_cast<off_t>(bytes.size()));
    if (got > 0) bytes.append(buffer.data(), static_cast<size_t>(got));
  }
}

void UndoLog::content_changes(int fd) {
  if (!keeps_undos()) return;
  const KeepErrno keep;
  if (contents_.contains(id_of(fd))) return;
  keep_content(::open(path_of_descriptor(fd).c_str(), O_RDWR | O_CLOEXEC));
}

void UndoLog::content_changes(int folder, const char* path) {
  if (!keeps_undos()) return;
  const KeepErrno keep;
  keep_content(::openat(folder, path, O_RDWR | O_CLOEXEC));
}

std::string UndoLog::keep(int folder, const char* path) {
  if (!keeps_undos()) return "";
  const KeepErrno keep;
  struct stat info {};
  if (::fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW) != 0) return "";
  std::string kept = std::to_string(++num_kept_);
  if (!S_ISDIR(info.st_mode)) {
    const int linked = ::linkat(folder, path, AT_FDCWD, (limbo_ / kept).c_str(), 0);
    return linked == 0 ? kept : "";
  }
  const fs::path now = name_of(folder, path).path();
  std::error_code error;
  if (!fs::is_empty(now, error) || error) return "";
  fs::rename(now, limbo_ / kept, error);
  return error ? "" : kept;
}

void UndoLog::give_back(int folder, const char* path, const std::string& kept) {
  if (kept.empty()) return;
  const KeepErrno keep;
  std::error_code ignored;
  if (fs::is_directory(fs::symlink_status(limbo_ / kept, ignored))) {
    fs::rename(limbo_ / kept, name_of(folder, path).path(), ignored);
  } else {
    fs::remove(limbo_ / kept, ignored);
  }
}

void UndoLog::made(int folder, const char* path) {
  if (!keeps_undos()) return;
  const KeepErrno keep;
  entries_.push_back({What::kMade, name_of(folder, path), "", {}});
}

void UndoLog::removed(int folder, const char* path, const std::string& kept) {
  if (!keeps_undos()) return;
  const KeepErrno keep;
  entries_.push_back({What::kRemoved, name_of(folder, path), kept, {}});
}

void UndoLog::renamed(int from_folder, const char* from, int to_folder, const char* to,
                      const std::string& kept) {
  if (!keeps_undos()) return;
  const KeepErrno keep;
  entries_.push_back({What::kRenamed, name_of(to_folder, to), kept, name_of(from_folder, from)});
}

void UndoLog::synced(int fd) {
  if (!keeps_undos()) return;
  const KeepErrno keep;
  const FileId id = id_of(fd);
  if (const auto content = contents_.find(id); content != contents_.end()) {
    ::close(content->second.fd);
    contents_.erase(content);
  }
  std::erase_if(entries_, [&](const Entry& entry) { return entry.name.folder_id == id; });
}

void UndoLog::undo(const Entry& entry) const {
  std::error_code ignored;
  if (entry.what == What::kMade) fs::remove_all(entry.name.path(), ignored);
  if (entry.what == What::kRenamed) fs::rename(entry.name.path(), entry.from.path(), ignored);
  if (!entry.kept.empty()) fs::rename(limbo_ / entry.kept, entry.name.path(), ignored);
}

void UndoLog::carry_out() {
  std::for_each(entries_.rbegin(), entries_.rend(), [&](const Entry& entry) { undo(entry); });
  for (const auto& [id, content] : contents_) {
    if (::ftruncate(content.fd, 0) != 0) ::perror("the undo log");
    const ssize_t size = static_cast<ssize_t>(content.bytes.size());
    if (::pwrite(content.fd, content.bytes.data(), content.bytes.size(), 0) != size)
      ::perror("the undo log");
  }
}

}  // namespace lmtrain::faults
