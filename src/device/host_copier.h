// Copies tensors of a GPU to host memory through two page-locked buffers, which it keeps.
//
// A GPU writes page-locked memory at the speed of its bus, and other memory through a small buffer
// of the driver. Here the GPU fills one buffer while the threads of this process empty the other.
// Two buffers serve copies of any size; the result itself is not page-locked.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace lmtrain {

// A HostCopyQueue copies from one device to buffers in host memory, in the order of the calls, and
// after the earlier work of the current stream.
class HostCopyQueue {
 public:
  virtual ~HostCopyQueue() = default;
  // Returns a uint8 buffer of `bytes` for begin(). Throws c10::Error if the system refuses it.
  virtual at::Tensor buffer(int64_t bytes) = 0;
  // Queues the copy of `from` to `to`, a contiguous part of a buffer in the shape and dtype of
  // `from`, and returns.
  virtual void begin(const at::Tensor& from, const at::Tensor& to) = 0;
  // Waits for the oldest copy that was begun and not yet waited for.
  virtual void wait_for_oldest() = 0;
};
// Returns the queue of a GPU. Returns null for a CPU, where there is nothing to wait for.
std::unique_ptr<HostCopyQueue> host_copy_queue(const at::Device& device);

class HostCopier {
 public:
  using MakeQueue = std::function<std::unique_ptr<HostCopyQueue>(const at::Device&)>;
  static constexpr int64_t kBufferBytes = 64 << 20;  // of each
  static constexpr size_t kNumBuffers = 2;

  // All tensors of a copier must be on one device. The arguments are for tests; `buffer_bytes` is
  // the size of one buffer.
  explicit HostCopier(MakeQueue make_queue = host_copy_queue, int64_t buffer_bytes = kBufferBytes);

  // Returns a finished copy in host memory, of any shape and dtype, made after the earlier work of
  // the current stream. One thread at a time may call it. Without buffers the driver copies:
  // tensors with gaps, tensors in host memory, and all after the system has refused the buffers,
  // which one warning says. Throws the c10::Error of the device.
  at::Tensor copy(const at::Tensor& values);

 private:
  // Makes queue and buffers at the first call. Returns whether there are any.
  bool has_buffers(const at::Device& device);

  MakeQueue make_queue_;
  int64_t buffer_bytes_;
  bool is_ready_ = false;
  std::unique_ptr<HostCopyQueue> queue_;  // null: copies go the driver's way
  std::vector<at::Tensor> buffers_;
};

}  // namespace lmtrain
