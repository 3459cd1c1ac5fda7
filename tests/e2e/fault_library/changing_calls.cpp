// The C library's calls that change files and folders, and those that sync them, with a judge in
// front of each and what the undo log needs. Each holds lock() until it is done.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "e2e/fault_library/descriptors.h"
#include "e2e/fault_library/faults.h"
#include "e2e/fault_library/undo_log.h"

namespace lmtrain::faults {
namespace {

// ---- Content ----

// `write` is given how many of the `size` bytes to write.
template <class Write>
ssize_t judged_write(int fd, size_t size, const Write& write) {
  const std::string path = path_of(fd);
  if (path.empty()) return write(size);
  const std::lock_guard hold(lock());
  const Verdict verdict = judge(Kind::kWrite, path);
  if (verdict == Verdict::kRefuse) return -1;
  undo_log().content_changes(fd);
  return write(verdict == Verdict::kShort && size > 1 ? size / 2 : size);
}

size_t size_of(const iovec* parts, int count) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  return size;
}

std::vector<iovec> first_bytes(const iovec* parts, int count, size_t size) {
  std::vector<iovec> chosen;
  for (int i = 0; i < count && size > 0; ++i) {
    chosen.push_back({parts[i].iov_base, std::min(parts[i].iov_len, size)});
    size -= chosen.back().iov_len;
  }
  return chosen;
}

template <class Truncate>
int judged_truncate_open(int fd, const Truncate& truncate) {
  const std::string path = path_of(fd);
  if (path.empty()) return truncate();
  const std::lock_guard hold(lock());
  if (judge(Kind::kTruncate, path) == Verdict::kRefuse) return -1;
  undo_log().content_changes(fd);
  return truncate();
}

template <class Truncate>
int judged_truncate(const char* path, const Truncate& truncate) {
  const std::lock_guard hold(lock());
  if (judge(Kind::kTruncate, absolute(path)) == Verdict::kRefuse) return -1;
  if (is_watched(absolute(path))) undo_log().content_changes(AT_FDCWD, path);
  return truncate();
}

// A folder that is not watched may hold the name of one that is.
template <class Sync>
int judged_sync(int fd, const Sync& sync) {
  const std::lock_guard hold(lock());
  if (judge(Kind::kSync, path_of(fd)) == Verdict::kRefuse) return -1;
  if (ignores_sync()) return 0;
  const int result = sync();
  if (result == 0) undo_log().synced(fd);
  return result;
}

// ---- Names ----

// A call that gives something a new name.
template <class Make>
int judged_make(Kind kind, int folder, const char* path, const Make& make) {
  const std::string full = path_at(folder, path);
  if (!is_watched(full) || Own::is_active()) return make();
  const std::lock_guard hold(lock());
  if (judge(kind, full) == Verdict::kRefuse) return -1;
  const int result = make();
  if (result == 0) undo_log().made(folder, path);
  return result;
}

template <class Remove>
int judged_remove(int folder, const char* path, bool is_folder, const Remove& remove) {
  const std::string full = path_at(folder, path);
  if (!is_watched(full) || Own::is_active()) return remove();
  const std::lock_guard hold(lock());
  if (judge(Kind::kRemove, full) == Verdict::kRefuse) return -1;
  struct stat info {};
  bool has_this_kind = false;
  {
    const Own own;
    has_this_kind = ::fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                    S_ISDIR(info.st_mode) == is_folder;
  }
  const std::string kept = has_this_kind ? undo_log().keep(folder, path) : "";
  const bool is_done = is_folder && !kept.empty();  // in limbo it is gone
  const int result = is_done ? 0 : remove();
  if (result == 0) {
    undo_log().removed(folder, path, kept);
  } else {
    undo_log().give_back(folder, path, kept);
  }
  return result;
}

template <class Rename>
int judged_rename(int from_folder, const char* from, int to_folder, const char* to,
                  const Rename& rename) {
  const std::string full = path_at(to_folder, to);
  if (!is_watched(full) || Own::is_active()) return rename();
  const std::lock_guard hold(lock());
  if (judge(Kind::kRename, full) == Verdict::kRefuse) return -1;
  const std::string kept = undo_log().keep(to_folder, to);
  const int result = rename();
  if (result == 0) {
    undo_log().renamed(from_folder, from, to_folder, to, kept);
  } else {
    undo_log().give_back(to_folder, to, kept);
  }
  return result;
}

}  // namespace
}  // namespace lmtrain::faults

// NOLINTBEGIN: the C library's names and signatures.
using namespace lmtrain::faults;

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  return judged_write(fd, size, [&](size_t most) { return real(fd, data, most); });
}

#define PWRITE_LIKE(name)                                                                     \
  ssize_t name(int fd, const void* data, size_t size, off_t offset) {                         \
    static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>(#name);       \
    return judged_write(fd, size, [&](size_t most) { return real(fd, data, most, offset); }); \
  }
PWRITE_LIKE(pwrite)
PWRITE_LIKE(pwrite64)

ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto real = next<ssize_t (*)(int, const iovec*, int)>("writev");
  return judged_write(fd, size_of(parts, count), [&](size_t most) {
    const std::vector<iovec> chosen = first_bytes(parts, count, most);
    return real(fd, chosen.data(), static_cast<int>(chosen.size()));
  });
}

#define PWRITEV_LIKE(name)                                                            \
  ssize_t name(int fd, const iovec* parts, int count, off_t offset) {                 \
    static const auto real = next<ssize_t (*)(int, const iovec*, int, off_t)>(#name); \
    return judged_write(fd, size_of(parts, count), [&](size_t most) {                 \
      const std::vector<iovec> chosen = first_bytes(parts, count, most);              \
      return real(fd, chosen.data(), static_cast<int>(chosen.size()), offset);        \
    });                                                                               \
  }
PWRITEV_LIKE(pwritev)
PWRITEV_LIKE(pwritev64)

#define FTRUNCATE_LIKE(name)                                         \
  int name(int fd, off_t size) noexcept {                            \
    static const auto real = next<int (*)(int, off_t)>(#name);       \
    return judged_truncate_open(fd, [&] { return real(fd, size); }); \
  }
FTRUNCATE_LIKE(ftruncate)
FTRUNCATE_LIKE(ftruncate64)

#define TRUNCATE_LIKE(name)                                            \
  int name(const char* path, off_t size) noexcept {                    \
    static const auto real = next<int (*)(const char*, off_t)>(#name); \
    return judged_truncate(path, [&] { return real(path, size); });    \
  }
TRUNCATE_LIKE(truncate)
TRUNCATE_LIKE(truncate64)

#define SYNC_LIKE(name)                                 \
  int name(int fd) {                                    \
    static const auto real = next<int (*)(int)>(#name); \
    return judged_sync(fd, [&] { return real(fd); });   \
  }
SYNC_LIKE(fsync)
SYNC_LIKE(fdatasync)

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  return judged_make(Kind::kMakeFolder, AT_FDCWD, path, [&] { return real(path, mode); });
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  static const auto real = next<int (*)(int, const char*, mode_t)>("mkdirat");
  return judged_make(Kind::kMakeFolder, folder, path, [&] { return real(folder, path, mode); });
}

int link(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("link");
  return judged_make(Kind::kLink, AT_FDCWD, to, [&] { return real(from, to); });
}

int linkat(int from_folder, const char* from, int folder, const char* to, int flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int, const char*, int)>("linkat");
  return judged_make(Kind::kLink, folder, to,
                     [&] { return real(from_folder, from, folder, to, flags); });
}

int symlink(const char* target, const char* path) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("symlink");
  return judged_make(Kind::kLink, AT_FDCWD, path, [&] { return real(target, path); });
}

int symlinkat(const char* target, int folder, const char* path) noexcept {
  static const auto real = next<int (*)(const char*, int, const char*)>("symlinkat");
  return judged_make(Kind::kLink, folder, path, [&] { return real(target, folder, path); });
}

int unlink(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("unlink");
  return judged_remove(AT_FDCWD, path, /*is_folder=*/false, [&] { return real(path); });
}

int rmdir(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("rmdir");
  return judged_remove(AT_FDCWD, path, /*is_folder=*/true, [&] { return real(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int)>("unlinkat");
  return judged_remove(folder, path, (flags & AT_REMOVEDIR) != 0,
                       [&] { return real(folder, path, flags); });
}

int remove(const char* path) noexcept {
  struct stat info {};
  bool is_folder = false;
  {
    const Own own;
    is_folder = ::lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
  }
  return is_folder ? rmdir(path) : unlink(path);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return judged_rename(AT_FDCWD, from, AT_FDCWD, to, [&] { return real(from, to); });
}

int renameat(int from_folder, const char* from, int folder, const char* to) noexcept {
  static const auto real = next<int (*)(int, const char*, int, const char*)>("renameat");
  return judged_rename(from_folder, from, folder, to,
                       [&] { return real(from_folder, from, folder, to); });
}

// RENAME_EXCHANGE is not undone: the program does not use it.
int renameat2(int from_folder, const char* from, int folder, const char* to,
              unsigned flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return judged_rename(from_folder, from, folder, to,
                       [&] { return real(from_folder, from, folder, to, flags); });
}

}  // extern "C"
// NOLINTEND
