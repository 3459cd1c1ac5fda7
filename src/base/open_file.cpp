#include "base/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/activities.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/text.h"

namespace lmtrain {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_no_file(const fs::path& path) {
  throw Error(ErrorKind::kData, str(shown(path), " is ", file_kind_name(path),
                                    ", and a file is needed there; move it away"));
}

struct stat status_of(int fd, const fs::path& path) {
  struct stat info {};
  Retry retry;
  while (::fstat(fd, &info) != 0) {
    if (!retry.again(errno)) fail_on_file("examine", path, errno);
  }
  return info;
}

// -1 with errno.
int try_open(const fs::path& path, int flags) {
  int fd = -1, error = 0;
  {
    const Activity opening("opening", path.native());
    Retry retry;
    while ((fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644)) < 0 && retry.again(errno)) {
    }
    error = errno;
  }
  errno = error;
  return fd;
}

}  // namespace

void fail_on_file(std::string_view action, const fs::path& path, int error) {
  std::string hint;
  if (error == ENOSPC || error == EDQUOT) hint = "; free some space";
  if (error == EACCES || error == EPERM || error == EROFS)
    hint = "; check the permissions of the file and its folder";
  if (error == EFBIG)
    hint = "; the file size limit (ulimit -f) or that of the file system is reached";
  if (error == EMFILE || error == ENFILE)
    hint = "; close other programs or raise the limit (ulimit -n)";
  if (error == EIO || error == ESTALE || error == EINTR)
    hint = "; wait until the file system answers";
  throw Error(error == ENOMEM ? ErrorKind::kMemory : ErrorKind::kIo,
              str("cannot ", action, " ", shown(path), ": ", std::strerror(error), hint));
}

int open_any(const fs::path& path, int flags, std::string_view action) {
  const int fd = try_open(path, flags);
  if (fd < 0) fail_on_file(action, path, errno);
  return fd;
}

int open_file(const fs::path& path, int flags, std::string_view action) {
  Descriptor fd(try_open(path, flags | O_NONBLOCK));
  if (fd.get() < 0) {
    const int error = errno;
    // The path is a pipe without a reader, a socket, or a folder opened to write.
    if (error == ENXIO || error == EISDIR) fail_no_file(path);
    fail_on_file(action, path, error);
  }
  const mode_t mode = status_of(fd.get(), path).st_mode;
  const bool reads = (flags & O_ACCMODE) == O_RDONLY;
  if (!S_ISREG(mode) && (reads || !S_ISCHR(mode))) fail_no_file(path);
  if (::fcntl(fd.get(), F_SETFL, flags & O_APPEND) != 0) fail_on_file(action, path, errno);
  return fd.release();
}

uint64_t size_of(int fd, const fs::path& path) {
  return static_cast<uint64_t>(status_of(fd, path).st_size);
}

size_t read_some(int fd, const fs::path& path, char* out, size_t size) {
  constexpr size_t kLargestRead = size_t{1} << 30;
  ssize_t got = 0;
  for (Retry retry;;) {
    got = ::read(fd, out, std::min(size, kLargestRead));
    if (got >= 0) return static_cast<size_t>(got);
    if (!retry.again(errno)) fail_on_file("read", path, errno);
  }
}

void write_at(int fd, const fs::path& path, uint64_t offset, std::string_view bytes) {
  Retry retry;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (retry.interrupted(errno)) continue;
      fail_on_file(str("write ", format_bytes(bytes.size()), " to"), path, errno);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

void sync_file(int fd, const fs::path& path) {
  const Activity syncing("syncing", path.native());
  if (uninterrupted([&] { return ::fsync(fd); }) != 0) fail_on_file("sync", path, errno);
}

}  // namespace lmtrain
