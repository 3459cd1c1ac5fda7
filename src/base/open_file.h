// file.h and read_file.h open files by these functions. They refuse anything but a regular file,
// never wait for it, and try again after a refusal that may pass (retry.h).
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <utility>

namespace lmtrain {

// Throws Error(kIo) "cannot ACTION PATH: reason", with a hint; Error(kMemory) for ENOMEM. `error`
// is a value of errno.
[[noreturn]] void fail_on_file(std::string_view action, const std::filesystem::path& path,
                               int error);

// A Descriptor closes its file descriptor when it is destroyed.
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

// Returns a descriptor from open(2) with `flags`, O_CLOEXEC and mode 0644; the caller closes it.
// Calls fail_on_file(action) when refused.
int open_any(const std::filesystem::path& path, int flags, std::string_view action);
// Does the same for what must be a file: throws Error(kData) that names the path when it is a pipe,
// a socket, a folder, a block device or, to be read, a character device. A character device, such
// as /dev/null, may be written. Never waits for the other end of a pipe.
int open_file(const std::filesystem::path& path, int flags, std::string_view action);
// Returns the size in bytes of the open file; `path` is for messages.
uint64_t size_of(int fd, const std::filesystem::path& path);
// Reads up to `size` bytes, as read(2): returns how many, 0 at the end. Calls fail_on_file when
// refused.
size_t read_some(int fd, const std::filesystem::path& path, char* out, size_t size);
// Writes all bytes at an offset, as pwrite(2). Calls fail_on_file when refused: a part of the bytes
// may be written.
void write_at(int fd, const std::filesystem::path& path, uint64_t offset, std::string_view bytes);
// Calls fsync(2), and fail_on_file when refused.
void sync_file(int fd, const std::filesystem::path& path);

}  // namespace lmtrain
