// A queue of work for threads: a thread takes tasks when it is free, so a slow core takes fewer.
//
// Tasks are numbered. A result must not depend on which thread takes which task: no two tasks
// may write to the same address, and sums must stay within a task.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace lmtrain {

// Tasks [begin, end); false if there are none.
struct Tasks {
  int64_t begin = 0, end = 0;
  explicit operator bool() const { return begin < end; }
};

// Hands out tasks 0 to count - 1, in order. Any thread may take.
class WorkQueue {
 public:
  explicit WorkQueue(int64_t count) : count_(count), threads_(at::get_num_threads()) {}

  // Returns the next task; none when all are taken.
  Tasks take_one() {
    const int64_t begin = next_.fetch_add(1, std::memory_order_relaxed);
    return {begin, std::min(begin + 1, count_)};
  }
  // Returns the next tasks: three quarters of a thread's share of the rest, so that all threads
  // end together. The number is a multiple of `together`; where the share is less, it is at least
  // `least`. Both must be 1 or more. None when all are taken.
  Tasks take_some(int64_t least, int64_t together) {
    int64_t begin = next_.load(std::memory_order_relaxed), end = 0;
    do {
      const int64_t share = 3 * (count_ - begin) / (4 * threads_);
      const int64_t some = share < together ? std::max(share, least) : share / together * together;
      end = std::min(begin + some, count_);
    } while (begin < count_ && !next_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return {begin, end};
  }

  // Calls f() once on each of several threads, which takes tasks from this queue until none is
  // left. The number of threads is libtorch's, or count / tasks, rounded up, if that is less.
  // `tasks` is at least 1.
  template <class F>
  void run(int64_t tasks, const F& f) const {
    at::parallel_for(0, std::min(threads_, (count_ + tasks - 1) / tasks), 1,
                     [&](int64_t, int64_t) { f(); });
  }

 private:
  const int64_t count_, threads_;
  std::atomic<int64_t> next_ = 0;
};

// Divides [0, count) into ranges of at least `grain` numbers, the last one excepted, and calls
// f(begin, end) for each, on all threads. `grain` must be 1 or more.
template <class F>
void parallel_for_queued(int64_t count, int64_t grain, const F& f) {
  WorkQueue work(count);
  work.run(grain, [&] {
    while (const Tasks tasks = work.take_some(grain, grain)) f(tasks.begin, tasks.end);
  });
}

}  // namespace lmtrain
