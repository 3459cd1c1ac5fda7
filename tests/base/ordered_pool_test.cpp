#include "base/ordered_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

#include "base/limits.h"
#include "base/support.h"

namespace lmtrain {
namespace {

TEST(OrderedPool, ResultsComeInOrderAndTheLimitHolds) {
  OrderedPool<int> pool(4, 8);
  int next = 0;
  int expected = 0;
  while (expected < 500) {
    while (next < 500 && !pool.full()) {
      pool.push([value = next] {
        std::this_thread::sleep_for(std::chrono::microseconds((value * 37) % 100));
        return value;
      });
      ++next;
    }
    EXPECT_LE(next - expected, 8);
    ASSERT_EQ(pool.pop(), expected++);
  }
  EXPECT_TRUE(pool.empty());
}

TEST(OrderedPool, AnExceptionArrivesInItsTurn) {
  OrderedPool<int> pool(2, 4);
  pool.push([] { return 1; });
  pool.push([]() -> int { throw std::runtime_error("two"); });
  pool.push([] { return 3; });
  EXPECT_EQ(pool.pop(), 1);
  EXPECT_THROW(pool.pop(), std::runtime_error);
  EXPECT_EQ(pool.pop(), 3);
}

TEST(OrderedPool, TheCallerIsOneOfTheThreads) {
  OrderedPool<std::thread::id> alone(1, 4);
  alone.push([] { return std::this_thread::get_id(); });
  EXPECT_EQ(alone.pop(), std::this_thread::get_id());
  // Two threads in all: while the other is busy with the oldest, the caller does the next.
  OrderedPool<std::thread::id> pool(2, 4);
  std::atomic<bool> first_has_begun = false, next_is_done = false;
  pool.push([&] {
    first_has_begun = true;
    while (!next_is_done) std::this_thread::yield();
    return std::this_thread::get_id();
  });
  while (!first_has_begun) std::this_thread::yield();
  pool.push([&] {
    next_is_done = true;
    return std::this_thread::get_id();
  });
  EXPECT_NE(pool.pop(), std::this_thread::get_id());
  EXPECT_EQ(pool.pop(), std::this_thread::get_id());
}

// The threads that were started before the one that was refused end.
TEST(OrderedPool, ARefusedThreadIsAnError) {
  EXPECT_EQ(testing::exit_code_of([] {
              if (!testing::limit_addresses(uint64_t{256} << 20)) return 1;
              try {
                OrderedPool<int> pool(1000, 4);
              } catch (const Error& error) {
                return error.kind() == ErrorKind::kMemory ? 0 : 2;
              }
              return 3;
            }),
            0);
}

TEST(OrderedPool, WorkLeftBehindIsDropped) {
  std::atomic<int> done = 0;
  {
    OrderedPool<int> pool(2, 100);  // a thread of its own
    for (int i = 0; i < 100; ++i) {
      pool.push([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return ++done;
      });
    }
    pool.pop();
  }
  EXPECT_LT(done, 100);
}

}  // namespace
}  // namespace lmtrain
