// A library for LD_PRELOAD that refuses one call on a watched file: open, opendir, readdir, read,
// stat and their relatives. It counts these calls; the one with the number asked for fails with an
// errno, and after it further calls of the same kind on the same path, if asked for.
//
//   LMTRAIN_FAULT_BELOW   folders whose files are watched, separated by ":"
//   LMTRAIN_FAULT_CALL    which call fails, from 1; 0 counts only
//   LMTRAIN_FAULT_ERRNO   a number; "kill": the process is killed instead
//   LMTRAIN_FAULT_TIMES   how many calls fail; -1: all from then on
//   LMTRAIN_FAULT_REPORT  a file: the number of calls, and the kind and path of the one that failed
//
// What glibc and libstdc++ call inside themselves without a symbol is out of reach; what the
// program and its libraries call is not.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kMostDescriptors = 4096;

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

struct Faults {
  std::mutex mutex;
  std::vector<std::string> below;
  long call = 0, times = 1, count = 0;
  int error = EIO;
  bool kills = false;
  std::string report;
  std::string failed_kind, failed_path;
  std::string path_of[kMostDescriptors];  // empty: not watched

  Faults() {
    const char* folders = std::getenv("LMTRAIN_FAULT_BELOW");
    for (const char* begin = folders; begin != nullptr && *begin != '\0';) {
      const char* end = std::strchr(begin, ':');
      below.emplace_back(begin, end == nullptr ? std::strlen(begin) : end - begin);
      begin = end == nullptr ? nullptr : end + 1;
    }
    const auto number = [](const char* name, long otherwise) {
      const char* text = std::getenv(name);
      return text == nullptr ? otherwise : std::strtol(text, nullptr, 10);
    };
    call = number("LMTRAIN_FAULT_CALL", 0);
    times = number("LMTRAIN_FAULT_TIMES", 1);
    error = static_cast<int>(number("LMTRAIN_FAULT_ERRNO", EIO));
    const char* named = std::getenv("LMTRAIN_FAULT_ERRNO");
    kills = named != nullptr && std::strcmp(named, "kill") == 0;
    if (const char* file = std::getenv("LMTRAIN_FAULT_REPORT")) report = file;
  }

  // After every call that is counted: a process may end without destructors.
  void write_report() const {
    if (report.empty()) return;
    const std::string text = std::to_string(count) + "\n" + failed_kind + "\n" + failed_path + "\n";
    const int fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, report.c_str(),
                                              O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (fd < 0) return;
    if (::write(fd, text.data(), text.size()) < 0) std::perror("fault report");
    ::syscall(SYS_close, fd);
  }
  ~Faults() { write_report(); }
};

Faults& faults() {
  static auto* all = new Faults;  // outlives whatever calls at the end
  return *all;
}

__attribute__((destructor)) void report_at_the_end() { faults().write_report(); }

std::string absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char folder[4096];
  return ::getcwd(folder, sizeof folder) == nullptr ? path : std::string(folder) + "/" + path;
}

std::string path_at(int folder, const char* name) {
  if (name[0] == '/' || folder == AT_FDCWD || folder < 0 || folder >= kMostDescriptors)
    return absolute(name);
  const std::lock_guard lock(faults().mutex);
  const std::string& base = faults().path_of[folder];
  return base.empty() ? std::string() : name[0] == '\0' ? base : base + "/" + name;
}

std::string path_of(int fd) {
  if (fd < 0 || fd >= kMostDescriptors) return {};
  const std::lock_guard lock(faults().mutex);
  return faults().path_of[fd];
}

bool watched(const std::string& path) {
  for (const std::string& folder : faults().below) {
    if (path.compare(0, folder.size(), folder) == 0 &&
        (path.size() == folder.size() || path[folder.size()] == '/'))
      return true;
  }
  return false;
}

// True when this call is to fail; errno is set then.
bool fails(const char* kind, const std::string& path) {
  Faults& all = faults();
  if (path.empty() || all.below.empty() || !watched(path)) return false;
  const std::lock_guard lock(all.mutex);
  ++all.count;
  const bool chosen = all.count == all.call;
  if (chosen) {
    all.failed_kind = kind;
    all.failed_path = path;
    all.write_report();
    if (all.kills) ::kill(::getpid(), SIGKILL);
  }
  const bool again = !chosen && all.call > 0 && all.count > all.call && all.times != 0 &&
                     all.failed_kind == kind && all.failed_path == path;
  if (!chosen && !again) return false;
  if (all.times > 0) --all.times;
  errno = all.error;
  return true;
}

int note_open(int fd, const std::string& path) {
  if (fd >= 0 && fd < kMostDescriptors) {
    const std::lock_guard lock(faults().mutex);
    faults().path_of[fd] = watched(path) ? path : std::string();
  }
  return fd;
}

mode_t mode_argument(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE
             ? static_cast<mode_t>(va_arg(arguments, int))
             : 0;
}

}  // namespace

// NOLINTBEGIN: the C library's names and signatures.
extern "C" {

#define OPEN_LIKE(name)                                                   \
  int name(const char* path, int flags, ...) {                            \
    va_list arguments;                                                    \
    va_start(arguments, flags);                                           \
    const mode_t mode = mode_argument(flags, arguments);                  \
    va_end(arguments);                                                    \
    const std::string full = absolute(path);                              \
    if (fails("open", full)) return -1;                                   \
    static const auto real = next<int (*)(const char*, int, ...)>(#name); \
    return note_open(real(path, flags, mode), full);                      \
  }
OPEN_LIKE(open)
OPEN_LIKE(open64)

#define OPENAT_LIKE(name)                                                      \
  int name(int folder, const char* path, int flags, ...) {                     \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = mode_argument(flags, arguments);                       \
    va_end(arguments);                                                         \
    const std::string full = path_at(folder, path);                            \
    if (fails("open", full)) return -1;                                        \
    static const auto real = next<int (*)(int, const char*, int, ...)>(#name); \
    return note_open(real(folder, path, flags, mode), full);                   \
  }
OPENAT_LIKE(openat)
OPENAT_LIKE(openat64)

#define FOPEN_LIKE(name)                                                       \
  FILE* name(const char* path, const char* mode) {                             \
    const std::string full = absolute(path);                                   \
    if (fails("open", full)) return nullptr;                                   \
    static const auto real = next<FILE* (*)(const char*, const char*)>(#name); \
    FILE* file = real(path, mode);                                             \
    if (file != nullptr) note_open(::fileno(file), full);                      \
    return file;                                                               \
  }
FOPEN_LIKE(fopen)
FOPEN_LIKE(fopen64)

int close(int fd) {
  static const auto real = next<int (*)(int)>("close");
  if (fd >= 0 && fd < kMostDescriptors) {
    const std::lock_guard lock(faults().mutex);
    faults().path_of[fd].clear();
  }
  return real(fd);
}

DIR* opendir(const char* path) {
  const std::string full = absolute(path);
  if (fails("opendir", full)) return nullptr;
  static const auto real = next<DIR* (*)(const char*)>("opendir");
  DIR* folder = real(path);
  if (folder != nullptr) note_open(::dirfd(folder), full);
  return folder;
}

DIR* fdopendir(int fd) {
  if (fails("opendir", path_of(fd))) return nullptr;
  static const auto real = next<DIR* (*)(int)>("fdopendir");
  return real(fd);
}

int closedir(DIR* folder) {
  static const auto real = next<int (*)(DIR*)>("closedir");
  const int fd = ::dirfd(folder);
  if (fd >= 0 && fd < kMostDescriptors) {
    const std::lock_guard lock(faults().mutex);
    faults().path_of[fd].clear();
  }
  return real(folder);
}

struct dirent* readdir(DIR* folder) {
  if (fails("readdir", path_of(::dirfd(folder)))) return nullptr;
  static const auto real = next<struct dirent* (*)(DIR*)>("readdir");
  return real(folder);
}

struct dirent64* readdir64(DIR* folder) {
  if (fails("readdir", path_of(::dirfd(folder)))) return nullptr;
  static const auto real = next<struct dirent64* (*)(DIR*)>("readdir64");
  return real(folder);
}

ssize_t read(int fd, void* out, size_t size) {
  if (fails("read", path_of(fd))) return -1;
  static const auto real = next<ssize_t (*)(int, void*, size_t)>("read");
  return real(fd, out, size);
}

#define PREAD_LIKE(name)                                                          \
  ssize_t name(int fd, void* out, size_t size, off_t offset) {                    \
    if (fails("read", path_of(fd))) return -1;                                    \
    static const auto real = next<ssize_t (*)(int, void*, size_t, off_t)>(#name); \
    return real(fd, out, size, offset);                                           \
  }
PREAD_LIKE(pread)
PREAD_LIKE(pread64)

#define STAT_LIKE(name, type)                                          \
  int name(const char* path, type* info) noexcept {                    \
    if (fails("stat", absolute(path))) return -1;                      \
    static const auto real = next<int (*)(const char*, type*)>(#name); \
    return real(path, info);                                           \
  }
STAT_LIKE(stat, struct stat)
STAT_LIKE(stat64, struct stat64)
STAT_LIKE(lstat, struct stat)
STAT_LIKE(lstat64, struct stat64)

#define FSTAT_LIKE(name, type)                                 \
  int name(int fd, type* info) noexcept {                      \
    if (fails("stat", path_of(fd))) return -1;                 \
    static const auto real = next<int (*)(int, type*)>(#name); \
    return real(fd, info);                                     \
  }
FSTAT_LIKE(fstat, struct stat)
FSTAT_LIKE(fstat64, struct stat64)

#define FSTATAT_LIKE(name, type)                                                 \
  int name(int folder, const char* path, type* info, int flags) noexcept {       \
    if (fails("stat", path_at(folder, path))) return -1;                         \
    static const auto real = next<int (*)(int, const char*, type*, int)>(#name); \
    return real(folder, path, info, flags);                                      \
  }
FSTATAT_LIKE(fstatat, struct stat)
FSTATAT_LIKE(fstatat64, struct stat64)

int statx(int folder, const char* path, int flags, unsigned mask, struct statx* info) noexcept {
  if (fails("stat", path_at(folder, path))) return -1;
  static const auto real = next<int (*)(int, const char*, int, unsigned, struct statx*)>("statx");
  return real(folder, path, flags, mask, info);
}

}  // extern "C"
// NOLINTEND
