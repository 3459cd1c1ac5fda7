// A bounded queue between the thread that builds batches and the one that trains, see loader.h.
#include "batching/loader.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/machine.h"

namespace lmtrain {

struct Loader::Impl {
  Impl(const BatchOrder& order_in, int64_t first, int64_t end_in, int64_t depth_in,
       const BatchShare& share_in)
      : order(order_in),
        next_index(first),
        end(end_in),
        depth(static_cast<size_t>(depth_in)),
        share(share_in) {}

  // Until the end, an error, or `stop`.
  void produce() {
    try {
      for (; end < 0 || next_index < end; ++next_index) {
        Batch batch = order.batch(next_index, share);
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || queue.size() < depth; });
        if (stop) return;
        queue.push_back(std::move(batch));
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    finished = true;
    changed.notify_all();
  }

  const BatchOrder& order;
  int64_t next_index;  // the thread's alone
  const int64_t end;
  const size_t depth;
  const BatchShare share;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<Batch> queue;
  std::exception_ptr error;
  bool stop = false;
  bool finished = false;

  std::thread thread;
};

Loader::Loader(const BatchOrder& order, int64_t first, int64_t end, const BatchShare& share,
               int64_t depth)
    : impl_(std::make_unique<Impl>(order, first, end, depth, share)) {
  impl_->thread = start_thread([impl = impl_.get()] { impl->produce(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

Batch Loader::next() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return !impl_->queue.empty() || impl_->finished; });
  if (impl_->queue.empty()) {
    if (impl_->error) std::rethrow_exception(impl_->error);
    throw Error(ErrorKind::kInternal, "the loader was asked for a batch past its end");
  }
  Batch batch = std::move(impl_->queue.front());
  impl_->queue.pop_front();
  impl_->changed.notify_all();
  return batch;
}

}  // namespace lmtrain
