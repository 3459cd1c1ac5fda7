// Copies tensors of a GPU to host memory through two page-locked buffers, which it keeps.
//
// A GPU writes page-locked memory by itself, at the speed of its bus. Memory of any other kind it
// reaches through a small buffer of the driver's, with the calling thread between. Here the GPU
// fills one buffer while the threads of this process empty the other, and two buffers serve copies
// of any size, so that a checkpoint's copy locks no memory of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace lmtrain {

// A HostCopyQueue copies from one device to buffers in host memory, in the order of the calls and
// of the other work of the current stream.
class HostCopyQueue {
 public:
  virtual ~HostCopyQueue() = default;
  // Returns a buffer of so many bytes, uint8, for begin(). Throws where the system refuses it.
  virtual at::Tensor buffer(int64_t bytes) = 0;
  // Queues the copy of `from` to `to`, a contiguous part of a buffer in the shape and dtype of
  // `from`, and returns.
  virtual void begin(const at::Tensor& from, const at::Tensor& to) = 0;
  // Returns when the oldest copy that was begun, and was not waited for yet, is done.
  virtual void wait_for_oldest() = 0;
};
// Returns the queue of a GPU. Returns null for a CPU, where there is nothing to wait for.
std::unique_ptr<HostCopyQueue> host_copy_queue(const at::Device& device);

class HostCopier {
 public:
  using MakeQueue = std::function<std::unique_ptr<HostCopyQueue>(const at::Device&)>;
  static constexpr int64_t kBufferBytes = 64 << 20;  // of each
  static constexpr size_t kNumBuffers = 2;

  // `make_queue`, and `buffer_bytes`, the size of one buffer, are for tests. All tensors of a
  // copier are on one device.
  explicit HostCopier(MakeQueue make_queue = host_copy_queue, int64_t buffer_bytes = kBufferBytes);

  // Returns a copy of any shape and dtype in host memory, after waiting for the current stream. One
  // thread at a time may call it. Tensors with gaps, and tensors in host memory, do not use the
  // buffers. Where the system refuses the buffers a warning says so, once, and from then on the
  // driver copies. Throws c10::Error of the device.
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
