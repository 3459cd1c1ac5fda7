// Copies to host memory through two buffers, with a stand-in for a GPU's queue.
#include "device/host_copier.h"

#include <gtest/gtest.h>

#include <deque>

#include "device/torch_headers.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::random_tensor;
using testing::same_bits;

constexpr int64_t kBytes = 64;  // of a buffer

// When a GPU writes a buffer is its own affair: at once, or not before somebody waits.
enum class Writes { kAtOnce, kWhenWaitedFor };

struct Account {
  int num_buffers = 0;
  int num_copies = 0;
  int most_at_once = 0;
};

class TestQueue : public HostCopyQueue {
 public:
  TestQueue(Writes writes, Account& account) : writes_(writes), account_(account) {}

  at::Tensor buffer(int64_t bytes) override {
    EXPECT_EQ(bytes, kBytes);
    ++account_.num_buffers;
    return at::full({bytes}, 0xFF, at::kByte);
  }

  void begin(const at::Tensor& from, const at::Tensor& to) override {
    EXPECT_EQ(from.sizes(), to.sizes());
    EXPECT_EQ(from.dtype(), to.dtype());
    for (const auto& [source, target] : begun_)
      EXPECT_NE(target.data_ptr(), to.data_ptr()) << "a copy to this buffer is under way";
    if (writes_ == Writes::kAtOnce) to.copy_(from);
    begun_.emplace_back(from, to);
    ++account_.num_copies;
    account_.most_at_once = std::max(account_.most_at_once, static_cast<int>(begun_.size()));
  }

  void wait_for_oldest() override {
    ASSERT_FALSE(begun_.empty());
    begun_.front().second.copy_(begun_.front().first);
    begun_.pop_front();
  }

 private:
  Writes writes_;
  Account& account_;
  std::deque<std::pair<at::Tensor, at::Tensor>> begun_;
};

TEST(HostCopier, CopiesOfAnySizeGoThroughTwoBuffers) {
  for (const Writes writes : {Writes::kAtOnce, Writes::kWhenWaitedFor}) {
    Account account;
    HostCopier copier(
        [&](const at::Device&) { return std::make_unique<TestQueue>(writes, account); }, kBytes);
    int num_copies = 0;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      const int64_t of_buffer = kBytes / static_cast<int64_t>(c10::elementSize(dtype));
      for (const int64_t numel : {int64_t{0}, int64_t{1}, of_buffer - 1, of_buffer, of_buffer + 1,
                                  2 * of_buffer, 5 * of_buffer + 3}) {
        const at::Tensor values = random_tensor({numel}, 1 + numel, dtype);
        EXPECT_TRUE(same_bits(copier.copy(values), values)) << dtype << numel;
        num_copies += static_cast<int>((numel + of_buffer - 1) / of_buffer);
      }
    }
    const at::Tensor matrix = random_tensor({7, 9}, 3, at::kFloat);
    const at::Tensor copied = copier.copy(matrix);
    EXPECT_EQ(copied.sizes(), matrix.sizes());
    EXPECT_TRUE(same_bits(copied, matrix));
    EXPECT_NE(copied.data_ptr(), matrix.data_ptr());
    EXPECT_EQ(account.num_copies, num_copies + 4);
    EXPECT_EQ(account.most_at_once, 2) << "the second buffer is filled while the first is emptied";
    EXPECT_EQ(account.num_buffers, 2) << "buffers are kept from copy to copy";
  }
}

TEST(HostCopier, TensorsWithGapsAreCopiedPlainly) {
  Account account;
  HostCopier copier(
      [&](const at::Device&) { return std::make_unique<TestQueue>(Writes::kAtOnce, account); },
      kBytes);
  const at::Tensor columns = random_tensor({8, 16}, 1, at::kFloat).narrow(1, 3, 5);
  EXPECT_TRUE(at::equal(copier.copy(columns), columns));
  EXPECT_EQ(account.num_copies, 0);
}

TEST(HostCopier, ACpuHasNoQueue) {
  EXPECT_EQ(host_copy_queue(at::kCPU), nullptr);
  const at::Tensor values = random_tensor({100}, 1, at::kFloat);
  const at::Tensor copied = HostCopier().copy(values);
  EXPECT_TRUE(same_bits(copied, values));
  EXPECT_NE(copied.data_ptr(), values.data_ptr());
}

// In the words of libtorch's allocator of page-locked memory.
class RefusingQueue : public TestQueue {
 public:
  using TestQueue::TestQueue;
  at::Tensor buffer(int64_t bytes) override {
    if (++asked_ == 2) TORCH_CHECK(false, "CUDA error: out of memory");
    return TestQueue::buffer(bytes);
  }

 private:
  int asked_ = 0;
};

TEST(HostCopier, WithoutPageLockedMemoryCopiesAreMadeAllTheSame) {
  Account account;
  int num_queues = 0;
  HostCopier copier(
      [&](const at::Device&) {
        ++num_queues;
        return std::make_unique<RefusingQueue>(Writes::kAtOnce, account);
      },
      kBytes);
  const at::Tensor values = random_tensor({100}, 1, at::kFloat);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(same_bits(copier.copy(values), values));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("page-locked memory cannot be had: CUDA error: out of memory"),
            std::string::npos)
      << log;
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(same_bits(copier.copy(values), values));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(account.num_copies, 0);
  EXPECT_EQ(num_queues, 1) << "who was refused once does not ask again";
}

}  // namespace
}  // namespace lmtrain
