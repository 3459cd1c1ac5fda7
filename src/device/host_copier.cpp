#include "device/host_copier.h"

#include <c10/core/Event.h>

#include <cstring>
#include <deque>

#include "base/log.h"
#include "base/text.h"
#include "device/device.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

constexpr int64_t kBytesOfAThread = 1 << 20;  // fewer are not divided

class GpuCopyQueue : public HostCopyQueue {
 public:
  explicit GpuCopyQueue(const at::Device& device) : device_(device) {}

  at::Tensor buffer(int64_t bytes) override { return host_buffer({bytes}, at::kByte, device_); }

  void begin(const at::Tensor& from, const at::Tensor& to) override {
    to.copy_(from, /*non_blocking=*/true);
    c10::Event copied(device_.type());
    copied.record(c10::impl::getDeviceGuardImpl(device_.type())->getStream(device_));
    begun_.push_back(std::move(copied));
  }

  void wait_for_oldest() override {
    begun_.front().synchronize();
    begun_.pop_front();
  }

 private:
  at::Device device_;
  std::deque<c10::Event> begun_;
};

// Copies with all threads, since one alone is slower than a GPU's bus.
void copy_bytes(const at::Tensor& from, const at::Tensor& to) {
  auto* const target = static_cast<char*>(to.data_ptr());
  const auto* const source = static_cast<const char*>(from.const_data_ptr());
  at::parallel_for(0, static_cast<int64_t>(to.nbytes()), kBytesOfAThread,
                   [&](int64_t first, int64_t end) {
                     std::memcpy(target + first, source + first, static_cast<size_t>(end - first));
                   });
}

}  // namespace

std::unique_ptr<HostCopyQueue> host_copy_queue(const at::Device& device) {
  if (device.is_cpu()) return nullptr;
  return std::make_unique<GpuCopyQueue>(device);
}

HostCopier::HostCopier(MakeQueue make_queue, int64_t buffer_bytes)
    : make_queue_(std::move(make_queue)), buffer_bytes_(buffer_bytes) {}

bool HostCopier::has_buffers(const at::Device& device) {
  if (is_ready_) return queue_ != nullptr;
  is_ready_ = true;
  queue_ = make_queue_(device);
  if (!queue_) return false;
  try {
    while (buffers_.size() < kNumBuffers) buffers_.push_back(queue_->buffer(buffer_bytes_));
  } catch (const c10::Error& error) {
    log_warning(str("copies of weights and optimizer for checkpoints are slower: ",
                    format_bytes(static_cast<uint64_t>(buffer_bytes_) * kNumBuffers),
                    " of page-locked memory cannot be had: ", error.what_without_backtrace()));
    buffers_.clear();
    queue_.reset();
  }
  return queue_ != nullptr;
}

at::Tensor HostCopier::copy(const at::Tensor& values) {
  at::Tensor copied = at::empty_like(values, at::kCPU);
  if (!values.is_contiguous() || !has_buffers(values.device())) return copied.copy_(values);
  const at::Tensor from = values.view(-1), to = copied.view(-1);
  const int64_t of_buffer = buffer_bytes_ / static_cast<int64_t>(values.element_size());
  const int64_t num_parts = (from.numel() + of_buffer - 1) / of_buffer;
  const auto part_of = [&](const at::Tensor& flat, int64_t part) {
    const int64_t first = part * of_buffer;
    return flat.narrow(0, first, std::min(of_buffer, flat.numel() - first));
  };
  const auto buffer_of = [&](int64_t part) {
    const at::Tensor& buffer = buffers_[static_cast<size_t>(part) % kNumBuffers];
    return buffer.narrow(0, 0, static_cast<int64_t>(part_of(to, part).nbytes()))
        .view(values.scalar_type());
  };
  const auto begin = [&](int64_t part) {
    if (part < num_parts) queue_->begin(part_of(from, part), buffer_of(part));
  };
  try {
    for (int64_t part = 0; part < static_cast<int64_t>(kNumBuffers); ++part) begin(part);
    for (int64_t part = 0; part < num_parts; ++part) {
      queue_->wait_for_oldest();
      copy_bytes(buffer_of(part), part_of(to, part));
      begin(part + static_cast<int64_t>(kNumBuffers));
    }
  } catch (...) {
    // Drops the queue: a copy may still be under way, and the next call must not wait for it as its
    // own.
    buffers_.clear();
    queue_.reset();
    is_ready_ = false;
    throw;
  }
  return copied;
}

}  // namespace lmtrain
