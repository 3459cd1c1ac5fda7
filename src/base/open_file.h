// file.h and read_file.h open files by these functions. They refuse anything but a regular file,
// never wait for it, and try again after a refusal that may pass (Retry).
#pragma once

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

namespace lmtrain {

// A refused system call may succeed when it is tried again: network file systems refuse for a
// moment (ESTALE, EIO), a busy machine runs out of descriptors (EMFILE, ENFILE), a signal
// interrupts (EINTR). Use one Retry for each call.
//
//   Retry retry;
//   while ((fd = ::open(...)) < 0 && retry.again(errno)) {
//   }
class Retry {
 public:
  // Returns true when the call is to be tried again: `error` (errno) is one of the codes above and
  // has not come too often. Before it returns true it waits, 0.3 s over all tries; EINTR needs no
  // wait. errno still holds `error` afterwards.
  bool again(int error) {
    constexpr int kMostWaits = 5;
    if (error == EINTR) return interrupted(error);
    if (error != ESTALE && error != EIO && error != EMFILE && error != ENFILE) return false;
    if (++waits_ > kMostWaits) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5 << waits_));
    errno = error;
    return true;
  }

  // Does the same for a call that changes files. Such a call is tried again only after a signal:
  // when it was refused for another reason, it may have done a part of its work.
  bool interrupted(int error) {
    constexpr int kMostInterruptions = 1000;
    return error == EINTR && ++interruptions_ <= kMostInterruptions;
  }

 private:
  int interruptions_ = 0;
  int waits_ = 0;
};

// Makes a call that changes files, which returns 0, or -1 with errno; makes it again after each
// signal. Returns what the call returns.
template <class Call>
int uninterrupted(const Call& call) {
  Retry retry;
  for (;;) {
    const int result = call();
    if (result == 0 || !retry.interrupted(errno)) return result;
  }
}

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
// Does the same for a path that must be a file. Throws Error(kData) that names the path for a pipe,
// a socket, a folder, a block device, and for a character device that is opened to read. A
// character device, such as /dev/null, may be written. Never waits for the other end of a pipe.
int open_file(const std::filesystem::path& path, int flags, std::string_view action);
// Returns the size in bytes of the open file; `path` is for messages.
uint64_t size_of(int fd, const std::filesystem::path& path);
// Reads up to `size` bytes, as read(2): returns how many, 0 at the end. Calls fail_on_file when
// refused.
size_t read_some(int fd, const std::filesystem::path& path, char* out, size_t size);
// Writes all bytes at an offset, as pwrite(2). Calls fail_on_file when refused; a part of the bytes
// may be written then.
void write_at(int fd, const std::filesystem::path& path, uint64_t offset, std::string_view bytes);
// Calls fsync(2), and fail_on_file when refused.
void sync_file(int fd, const std::filesystem::path& path);

}  // namespace lmtrain
