// Captures CUDA graphs, with a stream of its own and a private pool of libtorch's caching
// allocator.
//
// This is present in a program with CUDA kernels (LMTRAIN_HAS_CUDA). Neither libtorch_cuda.so nor
// libc10_cuda.so is linked: streams and events come through libtorch's device interface, the pool
// through the allocator's virtual functions.

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>

#include "device/captured_graph.h"
#include "kernels/cuda/kernels.h"

namespace lmtrain::cuda {
namespace {

using CudaAllocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;

const c10::impl::DeviceGuardImplInterface& device_interface() {
  return *c10::impl::getDeviceGuardImpl(at::kCUDA);
}

void* native(const c10::Stream& stream) { return device_interface().getStreamNativeHandle(stream); }

void wait_for(const c10::Stream& waiting, const c10::Stream& other) {
  c10::Event event(at::kCUDA);
  event.record(other);
  event.block(waiting);
}

// The memory of all graphs of a recorder, and of their warm-ups: each reuses the memory that the
// others have freed. The memory stays in place as long as the pool lives.
class Pool {
 public:
  // libtorch counts its own pools from 1, and does not come to these numbers.
  explicit Pool(const c10::Stream& stream)
      : stream_(stream),
        id_{0, (uint64_t{1} << 48) + next_pool()++},
        allocator_(*static_cast<CudaAllocator*>(c10::getDeviceAllocator(at::kCUDA))) {}
  ~Pool() {
    for (int64_t i = 0; i < num_uses_; ++i) allocator_.releasePool(stream_.device_index(), id_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // While it lives, memory for the stream comes from the pool, for any thread: the backward has its
  // own.
  class Use {
   public:
    explicit Use(Pool& pool) : pool_(pool) {
      // The allocator returns nothing to the driver while a pool is in use.
      pool.allocator_.emptyCache();
      void* const stream = native(pool.stream_);
      pool.allocator_.beginAllocateToPool(
          pool.stream_.device_index(), pool.id_,
          [stream](cudaStream_t asking) { return asking == stream; });
      ++pool.num_uses_;
    }
    ~Use() { pool_.allocator_.endAllocateToPool(pool_.stream_.device_index(), pool_.id_); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Pool& pool_;
  };

 private:
  static std::atomic<uint64_t>& next_pool() {
    static std::atomic<uint64_t> next{0};
    return next;
  }

  c10::Stream stream_;
  c10::MempoolId_t id_;
  CudaAllocator& allocator_;
  int64_t num_uses_ = 0;  // each counts as one, until it is released
};

class CudaGraph : public CapturedGraph {
 public:
  CudaGraph(void* graph, const at::Device& device) : graph_(graph), device_(device) {}
  ~CudaGraph() override { destroy_graph(graph_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch() override {
    const c10::DeviceGuard guard(device_);
    launch_graph(graph_, native(device_interface().getStream(device_)));
  }

 private:
  void* graph_;
  at::Device device_;
};

class CudaGraphRecorder : public GraphRecorder {
 public:
  explicit CudaGraphRecorder(const at::Device& device)
      : stream_(device_interface().getStreamFromGlobalPool(device)), pool_(stream_) {}

  void warm_up(const Work& work) override { on_own_stream(work); }

  std::unique_ptr<CapturedGraph> capture(const Work& work) override {
    std::unique_ptr<CapturedGraph> graph;
    on_own_stream([&] {
      begin_capture(native(stream_));
      try {
        work();
      } catch (...) {
        abandon_capture(native(stream_));
        throw;
      }
      graph = std::make_unique<CudaGraph>(end_capture(native(stream_)), stream_.device());
    });
    return graph;
  }

 private:
  // The default stream cannot be captured. Our stream waits for the current one, and the current
  // one then waits for ours.
  void on_own_stream(const Work& work) {
    const c10::Stream current = device_interface().getStream(stream_.device());
    wait_for(stream_, current);
    try {
      const c10::StreamGuard guard(stream_);
      const Pool::Use from_pool(pool_);
      work();
    } catch (...) {
      wait_for(current, stream_);  // what it had begun may still write
      throw;
    }
    wait_for(current, stream_);
  }

  c10::Stream stream_;
  Pool pool_;
};

}  // namespace

std::unique_ptr<GraphRecorder> graph_recorder(const at::Device& device) {
  return std::make_unique<CudaGraphRecorder>(device);
}

}  // namespace lmtrain::cuda
