// A library for LD_PRELOAD under which fsync of some files takes long: a disk that does not answer.
//
//   LMTRAIN_DELAY_PATH    a part of the paths whose fsync waits
//   LMTRAIN_DELAY_WHILE   a file; the first fsync that finds it there waits as long as it exists
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool is_meant(int fd) {
  const char* const part = std::getenv("LMTRAIN_DELAY_PATH");
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (part == nullptr || length < 0) return false;
  path[length] = '\0';
  return std::strstr(path, part) != nullptr;
}

}  // namespace

// NOLINTBEGIN: the C library's name and signature.
extern "C" int fsync(int fd) {
  static const auto real = reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, "fsync"));
  static std::atomic<bool> done{false};
  const char* const file = std::getenv("LMTRAIN_DELAY_WHILE");
  const auto is_there = [file] { return file != nullptr && ::access(file, F_OK) == 0; };
  if (is_meant(fd) && is_there() && !done.exchange(true)) {
    while (is_there()) ::usleep(10000);
  }
  return real(fd);
}
// NOLINTEND
