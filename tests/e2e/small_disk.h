// A file system so small that a test can fill it.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/support.h"

namespace lmtrain::testing {

// A small file system of our own, where the kernel lets us have one.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& size) {
    static const bool own_mounts = enter_own_mounts();
    mounted_ = own_mounts &&
               ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Writes a file of this name until no more than `left` bytes are free.
  void fill(const std::string& name, uintmax_t left = 0) const {
    std::ofstream filler(folder_ / name, std::ios::binary);
    const std::string chunk(4096, 'x');
    while (filler.flush() && std::filesystem::space(folder_.path()).available > left)
      filler << chunk;
  }

  bool make_read_only() const {
    return ::mount(nullptr, folder_.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

  // Called when this process gets mounts of its own, which a child started before does not see.
  static inline void (*on_own_mounts)() = [] {};

  bool mounted() const { return mounted_; }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  static bool enter_own_mounts() {
    const uid_t user = ::getuid();
    const gid_t group = ::getgid();
    if (::unshare(CLONE_NEWNS) != 0) {
      if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
      std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
    }
    on_own_mounts();
    return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  }

  TemporaryFolder folder_;
  bool mounted_ = false;
};

}  // namespace lmtrain::testing
