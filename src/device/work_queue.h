// A queue of work that threads take as they come free: a thread whose core is slowed, by a
// neighbour on the machine or by the work itself, takes less of it, and none waits long for
// another.
//
// Pieces are numbered. It must change no bit of a result which thread takes which piece: no two
// pieces may write to the same address, and sums must stay within a piece.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace lmtrain {

struct Pieces {
  int64_t begin = 0, end = 0;
  explicit operator bool() const { return begin < end; }
};

// Hands out pieces 0 to count - 1, in their order.
class WorkQueue {
 public:
  explicit WorkQueue(int64_t count) : count_(count), threads_(at::get_num_threads()) {}

  // Returns the next piece; empty when all are taken.
  Pieces take_one() {
    const int64_t begin = next_.fetch_add(1, std::memory_order_relaxed);
    return {begin, std::min(begin + 1, count_)};
  }
  // Returns the next pieces: many while many are left, so that a thread's are neighbours, and few
  // at the end, so that all threads end together. Their number is a multiple of `together` while
  // each thread's share of the rest is that large, then at least `least`. Both must be 1 or more.
  // Empty when all are taken.
  Pieces take_some(int64_t least, int64_t together) {
    int64_t begin = next_.load(std::memory_order_relaxed), end = 0;
    do {
      const int64_t share = 3 * (count_ - begin) / (4 * threads_);
      const int64_t some = share < together ? std::max(share, least) : share / together * together;
      end = std::min(begin + some, count_);
    } while (begin < count_ && !next_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return {begin, end};
  }

  // Calls f() once on each of several threads: on all threads, or on one for each `pieces` pieces
  // where these are fewer. `pieces` is at least 1. f takes pieces from this queue until none is
  // left.
  template <class F>
  void run(int64_t pieces, const F& f) const {
    at::parallel_for(0, std::min(threads_, (count_ + pieces - 1) / pieces), 1,
                     [&](int64_t, int64_t) { f(); });
  }

 private:
  const int64_t count_, threads_;
  std::atomic<int64_t> next_ = 0;
};

// Calls f(begin, end) on all threads for ranges that together are [0, count), each of at least
// `grain` numbers but for the last. `grain` must be 1 or more.
template <class F>
void parallel_for_queued(int64_t count, int64_t grain, const F& f) {
  WorkQueue work(count);
  work.run(grain, [&] {
    while (const Pieces pieces = work.take_some(grain, grain)) f(pieces.begin, pieces.end);
  });
}

}  // namespace lmtrain
