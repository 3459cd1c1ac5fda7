// The C library's calls that open, look at and read files, with a judge in front of each.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "e2e/fault_library/descriptors.h"
#include "e2e/fault_library/faults.h"
#include "e2e/fault_library/undo_log.h"

namespace lmtrain::faults {
namespace {

bool refuses(Kind kind, const std::string& path) { return judge(kind, path) == Verdict::kRefuse; }

mode_t mode_argument(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE
             ? static_cast<mode_t>(va_arg(arguments, int))
             : 0;
}

int flags_of(const char* mode) {
  if (mode[0] == 'w') return O_CREAT | O_TRUNC;
  return mode[0] == 'a' ? O_CREAT : 0;
}

// `open` carries the call out, and returns a negative number where it is refused.
template <class Open>
int judged_open(int folder, const char* path, int flags, const Open& open) {
  const std::string full = path_at(folder, path);
  if (!is_watched(full) || Own::is_active()) return note_open(open(), full);
  const std::lock_guard hold(lock());
  const bool changes = (flags & (O_CREAT | O_TRUNC)) != 0;
  if (refuses(changes ? Kind::kCreate : Kind::kOpen, full)) return -1;
  bool was_there = true;
  if (changes && keeps_undos()) {
    const Own own;
    was_there = ::faccessat(folder, path, F_OK, 0) == 0;
  }
  if ((flags & O_TRUNC) != 0 && was_there) undo_log().content_changes(folder, path);
  const int fd = open();
  if (fd >= 0 && !was_there) undo_log().made(folder, path);
  return note_open(fd, full);
}

// How many bytes a call that moves `size` is to move; -1 where it is refused.
ssize_t judged_size(Kind kind, const std::string& path, size_t size) {
  switch (judge(kind, path)) {
    case Verdict::kRefuse:
      return -1;
    case Verdict::kShort:
      return static_cast<ssize_t>(std::max<size_t>(size / 2, size > 0 ? 1 : 0));
    case Verdict::kGoOn:
      break;
  }
  return static_cast<ssize_t>(size);
}

}  // namespace
}  // namespace lmtrain::faults

// NOLINTBEGIN: the C library's names and signatures.
using namespace lmtrain::faults;

extern "C" {

#define OPEN_LIKE(name)                                                                 \
  int name(const char* path, int flags, ...) {                                          \
    va_list arguments;                                                                  \
    va_start(arguments, flags);                                                         \
    const mode_t mode = mode_argument(flags, arguments);                                \
    va_end(arguments);                                                                  \
    static const auto real = next<int (*)(const char*, int, ...)>(#name);               \
    return judged_open(AT_FDCWD, path, flags, [&] { return real(path, flags, mode); }); \
  }
OPEN_LIKE(open)
OPEN_LIKE(open64)

#define OPENAT_LIKE(name)                                                                     \
  int name(int folder, const char* path, int flags, ...) {                                    \
    va_list arguments;                                                                        \
    va_start(arguments, flags);                                                               \
    const mode_t mode = mode_argument(flags, arguments);                                      \
    va_end(arguments);                                                                        \
    static const auto real = next<int (*)(int, const char*, int, ...)>(#name);                \
    return judged_open(folder, path, flags, [&] { return real(folder, path, flags, mode); }); \
  }
OPENAT_LIKE(openat)
OPENAT_LIKE(openat64)

#define FOPEN_LIKE(name)                                                       \
  FILE* name(const char* path, const char* mode) {                             \
    static const auto real = next<FILE* (*)(const char*, const char*)>(#name); \
    FILE* file = nullptr;                                                      \
    judged_open(AT_FDCWD, path, flags_of(mode), [&] {                          \
      file = real(path, mode);                                                 \
      return file == nullptr ? -1 : ::fileno(file);                            \
    });                                                                        \
    return file;                                                               \
  }
FOPEN_LIKE(fopen)
FOPEN_LIKE(fopen64)

int fclose(FILE* file) {
  static const auto real = next<int (*)(FILE*)>("fclose");
  note_closed(::fileno(file));
  return real(file);
}

int close(int fd) {
  static const auto real = next<int (*)(int)>("close");
  // As on Linux, a close that is refused has closed the descriptor.
  const bool is_refused = refuses(Kind::kClose, path_of(fd));
  const int error = errno;
  note_closed(fd);
  const int result = real(fd);
  if (!is_refused) return result;
  errno = error;
  return -1;
}

DIR* opendir(const char* path) {
  static const auto real = next<DIR* (*)(const char*)>("opendir");
  const std::string full = absolute(path);
  if (refuses(Kind::kOpenFolder, full)) return nullptr;
  DIR* folder = real(path);
  if (folder != nullptr) note_open(::dirfd(folder), full);
  return folder;
}

DIR* fdopendir(int fd) {
  static const auto real = next<DIR* (*)(int)>("fdopendir");
  return refuses(Kind::kOpenFolder, path_of(fd)) ? nullptr : real(fd);
}

int closedir(DIR* folder) {
  static const auto real = next<int (*)(DIR*)>("closedir");
  note_closed(::dirfd(folder));
  return real(folder);
}

struct dirent* readdir(DIR* folder) {
  static const auto real = next<struct dirent* (*)(DIR*)>("readdir");
  return refuses(Kind::kReadFolder, path_of(::dirfd(folder))) ? nullptr : real(folder);
}

struct dirent64* readdir64(DIR* folder) {
  static const auto real = next<struct dirent64* (*)(DIR*)>("readdir64");
  return refuses(Kind::kReadFolder, path_of(::dirfd(folder))) ? nullptr : real(folder);
}

ssize_t read(int fd, void* out, size_t size) {
  static const auto real = next<ssize_t (*)(int, void*, size_t)>("read");
  const ssize_t most = judged_size(Kind::kRead, path_of(fd), size);
  return most < 0 ? -1 : real(fd, out, static_cast<size_t>(most));
}

#define PREAD_LIKE(name)                                                          \
  ssize_t name(int fd, void* out, size_t size, off_t offset) {                    \
    static const auto real = next<ssize_t (*)(int, void*, size_t, off_t)>(#name); \
    const ssize_t most = judged_size(Kind::kRead, path_of(fd), size);             \
    return most < 0 ? -1 : real(fd, out, static_cast<size_t>(most), offset);      \
  }
PREAD_LIKE(pread)
PREAD_LIKE(pread64)

#define STAT_LIKE(name, type)                                            \
  int name(const char* path, type* info) noexcept {                      \
    static const auto real = next<int (*)(const char*, type*)>(#name);   \
    return refuses(Kind::kStat, absolute(path)) ? -1 : real(path, info); \
  }
STAT_LIKE(stat, struct stat)
STAT_LIKE(stat64, struct stat64)
STAT_LIKE(lstat, struct stat)
STAT_LIKE(lstat64, struct stat64)

#define FSTAT_LIKE(name, type)                                      \
  int name(int fd, type* info) noexcept {                           \
    static const auto real = next<int (*)(int, type*)>(#name);      \
    return refuses(Kind::kStat, path_of(fd)) ? -1 : real(fd, info); \
  }
FSTAT_LIKE(fstat, struct stat)
FSTAT_LIKE(fstat64, struct stat64)

#define FSTATAT_LIKE(name, type)                                                               \
  int name(int folder, const char* path, type* info, int flags) noexcept {                     \
    static const auto real = next<int (*)(int, const char*, type*, int)>(#name);               \
    return refuses(Kind::kStat, path_at(folder, path)) ? -1 : real(folder, path, info, flags); \
  }
FSTATAT_LIKE(fstatat, struct stat)
FSTATAT_LIKE(fstatat64, struct stat64)

int statx(int folder, const char* path, int flags, unsigned mask, struct statx* info) noexcept {
  static const auto real = next<int (*)(int, const char*, int, unsigned, struct statx*)>("statx");
  return refuses(Kind::kStat, path_at(folder, path)) ? -1 : real(folder, path, flags, mask, info);
}

int access(const char* path, int mode) noexcept {
  static const auto real = next<int (*)(const char*, int)>("access");
  return refuses(Kind::kStat, absolute(path)) ? -1 : real(path, mode);
}

#define STATVFS_LIKE(name, type)                                         \
  int name(const char* path, type* info) noexcept {                      \
    static const auto real = next<int (*)(const char*, type*)>(#name);   \
    return refuses(Kind::kStat, absolute(path)) ? -1 : real(path, info); \
  }
STATVFS_LIKE(statvfs, struct statvfs)
STATVFS_LIKE(statvfs64, struct statvfs64)

#define MMAP_LIKE(name)                                                                         \
  void* name(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept { \
    static const auto real = next<void* (*)(void*, size_t, int, int, int, off_t)>(#name);       \
    if (fd >= 0 && refuses(Kind::kMap, path_of(fd))) return MAP_FAILED;                         \
    return real(at, size, protection, flags, fd, offset);                                       \
  }
MMAP_LIKE(mmap)
MMAP_LIKE(mmap64)

int flock(int fd, int operation) noexcept {
  static const auto real = next<int (*)(int, int)>("flock");
  return refuses(Kind::kLock, path_of(fd)) ? -1 : real(fd, operation);
}

int nanosleep(const timespec* time, timespec* left) {
  static const auto real = next<int (*)(const timespec*, timespec*)>("nanosleep");
  return skips_sleep() ? 0 : real(time, left);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  static const auto real =
      next<int (*)(clockid_t, int, const timespec*, timespec*)>("clock_nanosleep");
  return skips_sleep() ? 0 : real(clock, flags, time, left);
}

}  // extern "C"
// NOLINTEND
