#include "distributed/comm_thread.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "base/machine.h"
#include "device/device.h"
#include "device/failure.h"
#include "device/torch_headers.h"

namespace lmtrain {

struct CommThread::State {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  uint64_t added = 0, done = 0;
  bool stop = false, stopped = false;
  std::exception_ptr error;

  void run();
};

void CommThread::State::run() {
  log_torch_warnings();
  // One OpenMP thread, so that the sums take little from the computation beside them.
  at::get_num_threads();  // sets the number of this thread's when it is first called
  omp_set_num_threads(1);
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stop || (!waiting.empty() && !error); });
    if (stop) break;
    const std::function<void()> work = std::move(waiting.front());
    waiting.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    error = failure;
    ++done;
    changed.notify_all();
  }
  stopped = true;
  changed.notify_all();
}

CommThread::CommThread()
    : state_(std::make_shared<State>()),
      thread_(start_thread([state = state_] { state->run(); })) {}

CommThread::~CommThread() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  const bool ends =
      state_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return state_->stopped; });
  lock.unlock();
  if (ends) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

uint64_t CommThread::add(std::function<void()> work) {
  const std::lock_guard lock(state_->mutex);
  state_->waiting.push_back(std::move(work));
  state_->changed.notify_all();
  return ++state_->added;
}

void CommThread::wait(uint64_t number) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done >= number || state_->error; });
  if (state_->error) std::rethrow_exception(state_->error);
}

CommThreads::CommThreads(const std::vector<RangeExchange*>& exchanges) {
  for (RangeExchange* const exchange : exchanges)
    threads_.push_back({exchange, std::make_unique<CommThread>()});
}

void CommThreads::add(size_t chunk, std::function<void(RangeExchange&)> exchange) {
  if (alone_ != nullptr) return exchange(*alone_);
  Thread& thread = threads_[chunk % threads_.size()];
  thread.last = thread.work->add(
      [exchange = std::move(exchange), &connections = *thread.exchange] { exchange(connections); });
}

void CommThreads::wait() {
  for (const Thread& thread : threads_) thread.work->wait(thread.last);
}

CommThreads comm_threads(Processes& processes, const Config& config) {
  const bool has_threads = !processes.is_only() && device_of(config).is_cpu() &&
                           config.parallel.shard != ParallelShard::kParameters;
  if (!has_threads) return CommThreads(processes);
  // Each needs a connection to every other process, and is one of eight where these are few: the
  // files that a process may open are limited.
  return CommThreads(processes.extra_groups(std::clamp(128 / processes.count(), 1, 8)));
}

}  // namespace lmtrain
