// The tree of sums, without a network: ranks are run in turn on a shared board.
#include "distributed/tree_sum.h"

#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sin.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// Messages from rank to rank, and how many elements each has sent.
class Board {
 public:
  void swap(int rank, int partner, const at::Tensor& give, const at::Tensor& take) {
    std::unique_lock lock(mutex_);
    mail_[{rank, partner}].push_back(give.clone());
    sent_[rank] += give.numel();
    changed_.notify_all();
    auto& mine = mail_[{partner, rank}];
    changed_.wait(lock, [&] { return !mine.empty(); });
    take.copy_(mine.front());
    mine.erase(mine.begin());
  }
  int64_t sent(int rank) { return sent_[rank]; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::vector<at::Tensor>> mail_;
  std::map<int, int64_t> sent_;
};

at::Tensor leaf(int rank, int64_t size) {
  const at::Tensor index = at::arange(size, at::kDouble) + 977.0 * rank;
  return (at::sin(index) * at::exp(at::cos(5 * index) * 6)).to(at::kFloat);
}

at::Tensor tree(int first, int count, int64_t size) {
  if (count == 1) return leaf(first, size);
  return tree(first, count / 2, size) + tree(first + count / 2, count / 2, size);
}

// Runs `work` as each rank, whose tensor it is given; returns the tensors afterwards.
std::vector<at::Tensor> as_ranks(
    int count, int64_t size, Board& board,
    const std::function<void(int rank, const at::Tensor& flat, const Exchange& exchange)>& work) {
  std::vector<at::Tensor> flats;
  for (int rank = 0; rank < count; ++rank) flats.push_back(leaf(rank, size));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < count; ++rank) {
    ranks.emplace_back([&, rank] {
      work(rank, flats[static_cast<size_t>(rank)],
           [&, rank](int partner, const at::Tensor& give, const at::Tensor& take) {
             board.swap(rank, partner, give, take);
           });
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return flats;
}

TEST(TreeSum, HasTheBitsOfTheTreeAndTheBytesOfAReduceScatter) {
  for (const int count : {1, 2, 4, 8}) {
    for (const int64_t size : {0, 1, 3, 8, 4096}) {
      Board board;
      const std::vector<ElementRange> ranges = evenly_divided({0, size}, count).ranges;
      const std::vector<at::Tensor> flats =
          as_ranks(count, size, board, [&](int rank, const at::Tensor& flat, const Exchange& swap) {
            tree_sum(flat, ranges, rank, swap, kHostMessage);
            tree_gather(flat, ranges, rank, swap);
          });
      const at::Tensor expected = tree(0, count, size);
      for (int rank = 0; rank < count; ++rank) {
        EXPECT_TRUE(at::equal(flats[static_cast<size_t>(rank)], expected)) << count << " " << size;
        if (size % count == 0) {
          EXPECT_EQ(board.sent(rank), 2 * (count - 1) * size / count);
        }
      }
    }
  }
}

// Unequal ranges, empty ones among them; before they are gathered, each rank has its own alone.
TEST(TreeSum, AnyCutsHaveTheSameBits) {
  constexpr int64_t kSize = 1000;
  const at::Tensor expected = tree(0, 4, kSize);
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 10, 900, 999, kSize},
                                           {0, 0, 400, 400, kSize},
                                           {0, kSize, kSize, kSize, kSize},
                                           {0, 0, 0, 0, kSize}}) {
    const std::vector<ElementRange> ranges = divided_at(cuts).ranges;
    Board board, second;
    const std::vector<at::Tensor> sums =
        as_ranks(4, kSize, board, [&](int rank, const at::Tensor& flat, const Exchange& swap) {
          tree_sum(flat, ranges, rank, swap, kHostMessage);
        });
    for (size_t rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(at::equal(ranges[rank].of(sums[rank]), ranges[rank].of(expected)));
      EXPECT_FALSE(at::equal(sums[rank], expected) && ranges[rank].size < kSize) << "not a half";
    }
    const std::vector<at::Tensor> all =
        as_ranks(4, kSize, second, [&](int rank, const at::Tensor& flat, const Exchange& swap) {
          flat.zero_();
          const ElementRange& mine = ranges[static_cast<size_t>(rank)];
          mine.of(flat).copy_(mine.of(expected));
          tree_gather(flat, ranges, rank, swap);
        });
    for (const at::Tensor& flat : all) EXPECT_TRUE(at::equal(flat, expected));
  }
}

// Messages of any size give the bits of one, whether ranges are even, unequal or empty, and every
// rank makes as many exchanges as the others, whatever its ranges are.
TEST(TreeSum, MessagesHaveTheSameBits) {
  constexpr int64_t kSize = 1000;
  const at::Tensor expected = tree(0, 4, kSize);
  const std::vector<std::vector<int64_t>> cuts = {
      {0, 250, 500, 750, kSize}, {0, 10, 900, 999, kSize}, {0, 0, 0, 0, kSize}};
  for (const int64_t message : {1, 7, 100, 499, 5000}) {
    for (const std::vector<int64_t>& cut : cuts) {
      const std::vector<ElementRange> ranges = divided_at(cut).ranges;
      Board board;
      std::vector<int> exchanges(4);
      const std::vector<at::Tensor> sums =
          as_ranks(4, kSize, board, [&](int rank, const at::Tensor& flat, const Exchange& swap) {
            const auto counted = [&](int partner, const at::Tensor& give, const at::Tensor& take) {
              ++exchanges[static_cast<size_t>(rank)];
              EXPECT_LE(take.numel(), message);
              swap(partner, give, take);
            };
            tree_sum(flat, ranges, rank, counted, message);
          });
      for (size_t rank = 0; rank < 4; ++rank) {
        EXPECT_TRUE(at::equal(ranges[rank].of(sums[rank]), ranges[rank].of(expected)))
            << "rank " << rank << ", messages of " << message;
        EXPECT_EQ(exchanges[rank], exchanges[0]);
      }
    }
  }
}

TEST(TreeSum, NeedsAPowerOfTwo) {
  const std::vector<ElementRange> ranges = evenly_divided({0, 3}, 3).ranges;
  EXPECT_THROW(tree_sum(leaf(0, 3), ranges, 0, {}, kHostMessage), Error);
  EXPECT_THROW(tree_gather(leaf(0, 3), ranges, 0, {}), Error);
}

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
    const std::vector<ElementRange> ranges = divided_at(cuts).ranges;
    at::Tensor expected = at::zeros({kSize});
    for (int rank = 0; rank < count; ++rank) expected += values_of(rank, kSize);
    Queues queues(count);
    std::vector<std::thread> threads;
    std::vector<at::Tensor> sums(static_cast<size_t>(count)), flats = sums;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        const auto self = static_cast<size_t>(rank);
        flats[self] = values_of(rank, kSize);
        ring_sum(flats[self], ranges, rank, queues.of(rank));
        sums[self] = flats[self].clone();
        ring_gather(flats[self], ranges, rank, queues.of(rank));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t rank = 0; rank < flats.size(); ++rank) {
      EXPECT_TRUE(at::equal(ranges[rank].of(sums[rank]), ranges[rank].of(expected)));
      EXPECT_TRUE(at::equal(flats[rank], expected)) << count;
    }
  }
}

// Before the first exchange, so that no rank waits for another.
TEST(TreeSum, RangesThatOverlapAreRefused) {
  const at::Tensor flat = leaf(0, 4);
  const Exchange exchange = [](int, const at::Tensor&, const at::Tensor&) { FAIL(); };
  for (const int rank : {0, 1})
    EXPECT_THROW(tree_sum(flat, {{0, 3}, {2, 2}}, rank, exchange, kHostMessage), Error);
}

}  // namespace

}  // namespace lmtrain
