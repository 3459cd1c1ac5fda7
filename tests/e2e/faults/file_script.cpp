// A program that does to files what its arguments say, one after the other, for the tests of the
// fault library: write PATH TEXT, append PATH TEXT, cut PATH SIZE, sync PATH, rename PATH PATH,
// link PATH PATH, unlink PATH, mkdir PATH, rmdir PATH. It ends with the errno of the first that
// fails.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

namespace {

bool write_to(const char* path, int flags, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd < 0) return false;
  const bool is_written =
      ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return ::close(fd) == 0 && is_written;
}

bool sync(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_synced = ::fsync(fd) == 0;
  return ::close(fd) == 0 && is_synced;
}

// Takes the words of one operation off the front.
bool carry_out(std::span<char*>& words) {
  const auto next = [&] {
    char* word = words.front();
    words = words.subspan(1);
    return word;
  };
  const std::string what = next();
  const char* path = next();
  if (what == "sync") return sync(path);
  if (what == "unlink") return ::unlink(path) == 0;
  if (what == "mkdir") return ::mkdir(path, 0755) == 0;
  if (what == "rmdir") return ::rmdir(path) == 0;
  const char* second = next();
  if (what == "write") return write_to(path, O_TRUNC, second);
  if (what == "append") return write_to(path, O_APPEND, second);
  if (what == "cut") return ::truncate(path, std::atol(second)) == 0;
  if (what == "link") return ::link(path, second) == 0;
  if (what == "rename") return std::rename(path, second) == 0;
  errno = EINVAL;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::span<char*> words(argv + 1, static_cast<size_t>(argc) - 1);
  while (!words.empty()) {
    if (!carry_out(words)) return errno;
  }
  return 0;
}
