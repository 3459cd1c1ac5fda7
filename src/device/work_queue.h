// A queue of work for threads: a thread takes pieces when it is free, so a slow core takes fewer.
//
// Pieces are numbered. A result must not depend on which thread takes which piece: no two pieces
// may write to the same address, and sums must stay within a piece.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace lmtrain {

// Pieces [begin, end); false if there are none.
struct Pieces {
  int64_t begin = 0, end = 0;
  explicit operator bool() const { return begin < end; }
};

// Hands out pieces 0 to count - 1, in order. Any thread may take.
class WorkQueue {
 public:
  explicit WorkQueue(int64_t count) : count_(count), threads_(at::get_num_threads()) {}

  // Returns the next piece; none when all are taken.
  Pieces take_one() {
    const int64_t begin = next_.fetch_add(1, std::memory_order_relaxed);
    return {begin, std::min(begin + 1, count_)};
  }
  // Returns the next pieces: three quarters of a thread's share of the rest, so that all threads
  // end together. The number is a multiple of `together`; where the share is less, it is at least
  // `least`. Both must be 1 or more. None when all are taken.
  Pieces take_some(int64_t least, int64_t together) {
    int64_t begin = next_.load(std::memory_order_relaxed), end = 0;
    do {
      const int64_t share = 3 * (count_ - begin) / (4 * threads_);
      const int64_t some = share < together ? std::max(share, least) : share / together * together;
      end = std::min(begin + some, count_);
    } while (begin < count_ && !next_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return {begin, end};
  }

  // Calls f() once on each of several threads, which takes pieces from this queue until none is
  // left. The number of threads is libtorch's, or count / pieces, rounded up, if that is less.
  // `pieces` is at least 1.
  template <class F>
  void run(int64_t pieces, const F& f) const {
    at::parallel_for(0, std::min(threads_, (count_ + pieces - 1) / pieces), 1,
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
    while (const Pieces pieces = work.take_some(grain, grain)) f(pieces.begin, pieces.end);
  });
}

}  // namespace lmtrain
