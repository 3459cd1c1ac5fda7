// A pool of threads that return results in the order in which the work was given: the caller calls
// push() until full(), then pop() for the oldest result. `num_threads` counts the caller, which
// works too while it waits in pop().
//
// Only one thread may push and pop. An exception of the work is thrown by its pop(). full() says
// when `limit` results are under way; push() does not enforce the limit. The destructor drops work
// not begun and waits for the rest.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine.h"

namespace lmtrain {

template <class Result>
class OrderedPool {
 public:
  // Throws Error(kMemory) where the system refuses a thread.
  OrderedPool(int num_threads, size_t limit) : limit_(limit) {
    try {
      for (int i = 1; i < num_threads; ++i) threads_.push_back(start_thread([this] { work(); }));
    } catch (...) {
      stop();
      throw;
    }
  }
  ~OrderedPool() { stop(); }
  OrderedPool(const OrderedPool&) = delete;
  OrderedPool& operator=(const OrderedPool&) = delete;

  bool empty() const { return results_.empty(); }
  bool full() const { return results_.size() >= limit_; }

  void push(std::function<Result()> function) {
    std::packaged_task<Result()> task(std::move(function));
    results_.push_back(task.get_future());
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    ready_.notify_one();
  }

  // Waits for the oldest result, and works on what is pending meanwhile. Requires !empty().
  Result pop() {
    std::future<Result> oldest = std::move(results_.front());
    results_.pop_front();
    while (oldest.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      std::packaged_task<Result()> task;
      {
        const std::lock_guard lock(mutex_);
        if (tasks_.empty()) break;
        task = take();
      }
      task();
    }
    return oldest.get();
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void work() {
    for (;;) {
      std::packaged_task<Result()> task;
      {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
        if (stopping_) return;
        task = take();
      }
      task();
    }
  }

  std::packaged_task<Result()> take() {
    std::packaged_task<Result()> task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  size_t limit_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::packaged_task<Result()>> tasks_;
  bool stopping_ = false;
  std::deque<std::future<Result>> results_;
  std::vector<std::thread> threads_;
};

}  // namespace lmtrain
