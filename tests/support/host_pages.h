// A GPU's memory without addresses (device/slotted_memory.h) in host memory, by memfd: what is
// mapped at two addresses is the same there too.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "device/slotted_memory.h"

namespace lmtrain::testing {

class HostPages final : public PageMapper {
 public:
  static constexpr int64_t kPage = 4096;

  HostPages() : file_(::memfd_create("pages of a test", MFD_CLOEXEC)) {}
  ~HostPages() override { ::close(file_); }

  at::Device device() const override { return at::kCPU; }
  int64_t page_bytes() const override { return kPage; }
  char* reserve(int64_t bytes) override {
    return checked(
        ::mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  uint64_t allocate(int64_t bytes) override {
    if (bytes % kPage != 0) throw std::logic_error("no whole pages");
    const auto memory = static_cast<uint64_t>(end_);
    end_ += bytes;
    if (::ftruncate(file_, end_) != 0) throw std::runtime_error("no pages");
    in_use_[memory] = bytes;
    return memory;
  }
  void map(char* address, uint64_t memory, int64_t bytes) override {
    if (in_use_.at(memory) != bytes)
      throw std::logic_error("all of a memory is mapped, or nothing");
    checked(::mmap(address, static_cast<size_t>(bytes), PROT_NONE, MAP_SHARED | MAP_FIXED, file_,
                   static_cast<off_t>(memory)));
  }
  void allow(char* address, int64_t bytes) override {
    if (::mprotect(address, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE) != 0)
      throw std::runtime_error("no access");
  }
  void unreserve(char* address, int64_t bytes,
                 const std::vector<std::pair<char*, int64_t>>& /*mapped*/) noexcept override {
    ::munmap(address, static_cast<size_t>(bytes));
  }
  void free(uint64_t memory, int64_t /*bytes*/) noexcept override { in_use_.erase(memory); }

  // Returns the bytes that were allocated and not freed.
  int64_t bytes_in_use() const {
    int64_t bytes = 0;
    for (const auto& [memory, size] : in_use_) bytes += size;
    return bytes;
  }

 private:
  static char* checked(void* address) {
    if (address == MAP_FAILED) throw std::runtime_error("no addresses");
    return static_cast<char*>(address);
  }

  int file_;
  int64_t end_ = 0;
  std::map<uint64_t, int64_t> in_use_;  // memory and its bytes
};

}  // namespace lmtrain::testing
