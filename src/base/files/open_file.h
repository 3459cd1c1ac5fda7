// Opening files, for file.h and read_file.h: what is no regular file is told without waiting for
// it, and a refusal that may pass is tried again.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <utility>

namespace lmtrain {

// Error(kIo) "cannot ACTION PATH: reason", with a hint; Error(kMemory) for ENOMEM.
[[noreturn]] void fail_on_file(std::string_view action, const std::filesystem::path& path,
                               int error);

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// A descriptor of what open(2) opens with `flags` and O_CLOEXEC; the caller closes it. A refusal
// that may pass is tried again; any other is fail_on_file(action).
int open_any(const std::filesystem::path& path, int flags, std::string_view action);
// The same for what must be a file: Error(kData) naming the path when it is a pipe, a socket, a
// folder or, to be read, a device. Never waits for the other end of a pipe.
int open_file(const std::filesystem::path& path, int flags, std::string_view action);
// Bytes of the file that `fd` is.
uint64_t size_of(int fd, const std::filesystem::path& path);
// Reads up to `size` bytes, as read(2): returns how many, 0 at the end. A refusal that may pass is
// tried again; any other is fail_on_file.
size_t read_some(int fd, const std::filesystem::path& path, char* out, size_t size);

}  // namespace lmtrain
