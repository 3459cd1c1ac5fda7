// The ring, without a network: each rank has a queue of what it was passed.
#include "distributed/ring.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

class Queues {
 public:
  explicit Queues(int count) : queues_(static_cast<size_t>(count)) {}
  PassOn of(int rank) {
    return [this, rank](const at::Tensor& give, const at::Tensor& take) {
      const auto self = static_cast<size_t>(rank);
      std::unique_lock lock(mutex_);
      queues_[(self + 1) % queues_.size()].push_back(give.clone());
      changed_.notify_all();
      changed_.wait(lock, [&] { return !queues_[self].empty(); });
      take.copy_(queues_[self].front());
      queues_[self].pop_front();
    };
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<at::Tensor>> queues_;
};

// Whole numbers: their sum is the same in any order.
at::Tensor values_of(int rank, int64_t size) { return at::arange(size, at::kFloat) + 1000 * rank; }

TEST(Ring, EachRankHasTheSumOfItsRangeThenAllHaveAll) {
  constexpr int64_t kSize = 100;
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, kSize},
                                           {0, 33, kSize},
                                           {0, 10, 10, kSize},
                                           {0, 1, 2, 3, 4, kSize}}) {
    const auto count = static_cast<int>(cuts.size()) - 1;
    const std::vector<ElementRange> ranges = ranges_of_ranks(cuts);
    std::vector<ElementRange> extended = ranges;  // as far as they overlap
    for (ElementRange& range : extended)
      range.size = std::min(range.size + 20, kSize - range.first);
    at::Tensor expected = at::zeros({kSize});
    for (int rank = 0; rank < count; ++rank) expected += values_of(rank, kSize);
    Queues queues(count);
    std::vector<std::thread> threads;
    std::vector<at::Tensor> overlapped(static_cast<size_t>(count)), flats = overlapped;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        const auto self = static_cast<size_t>(rank);
        overlapped[self] = values_of(rank, kSize);
        ring_sum(overlapped[self], extended, rank, queues.of(rank));
        flats[self] = values_of(rank, kSize);
        ring_sum(flats[self], ranges, rank, queues.of(rank));
        ring_gather(flats[self], ranges, rank, queues.of(rank));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t rank = 0; rank < flats.size(); ++rank) {
      EXPECT_TRUE(at::equal(extended[rank].of(overlapped[rank]), extended[rank].of(expected)));
      EXPECT_TRUE(at::equal(flats[rank], expected)) << count;
    }
  }
}

}  // namespace
}  // namespace lmtrain
