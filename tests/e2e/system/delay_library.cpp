// A library for LD_PRELOAD under which fsync of some files takes long: a disk that does not answer.
//
//   LMTRAIN_DELAY_PATH      a part of the paths whose fsync waits
//   LMTRAIN_DELAY_SECONDS   how long; the first such fsync alone
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
  if (is_meant(fd) && !done.exchange(true)) {
    const char* const seconds = std::getenv("LMTRAIN_DELAY_SECONDS");
    ::usleep(static_cast<useconds_t>(1e6 * std::atof(seconds == nullptr ? "0" : seconds)));
  }
  return real(fd);
}
// NOLINTEND
