// The tree of sums, without a network: ranks are run in turn on a shared board.
#include "processes/tree_sum.h"

#include <gtest/gtest.h>

#include <condition_variable>
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

TEST(TreeSum, HasTheBitsOfTheTreeAndTheBytesOfAReduceScatter) {
  for (const int count : {1, 2, 4, 8}) {
    for (const int64_t size : {0, 1, 3, 8, 4096}) {
      Board board;
      std::vector<at::Tensor> flats;
      for (int rank = 0; rank < count; ++rank) flats.push_back(leaf(rank, size));
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < count; ++rank) {
        ranks.emplace_back([&, rank] {
          tree_sum(flats[static_cast<size_t>(rank)], rank, count,
                   [&](int partner, const at::Tensor& give, const at::Tensor& take) {
                     board.swap(rank, partner, give, take);
                   });
        });
      }
      for (std::thread& rank : ranks) rank.join();
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

TEST(TreeSum, NeedsAPowerOfTwo) { EXPECT_THROW(tree_sum(leaf(0, 3), 0, 3, {}), Error); }

}  // namespace
}  // namespace lmtrain
