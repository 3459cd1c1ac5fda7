// Signs of life, and who has read why a run ends.
#include "distributed/heartbeat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

using namespace std::chrono_literals;

// Its server can be stopped: while somebody holds the lock, every call waits.
class StoppableStore : public c10d::HashStore {
 public:
  std::unique_lock<std::mutex> stopped() { return std::unique_lock(m_); }
};

class HeartbeatTest : public testing::Test {
 protected:
  // One of three processes; rank 0 serves the store.
  std::unique_ptr<Heartbeat> heartbeat(int rank) const {
    return std::make_unique<Heartbeat>(
        store_, Heartbeat::Group{rank, {"rank 0", "rank 1", "rank 2"}, std::optional<int>(0)},
        [](const Loss&) {});
  }
  static std::optional<Loss> wait_for_loss(Heartbeat& heartbeat) {
    return heartbeat.wait(
        {}, [] { return false; }, 60s);
  }
  int64_t num_readers() const { return store_->add("read", 0); }

  c10::intrusive_ptr<StoppableStore> store_ = c10::make_intrusive<StoppableStore>();
};

// The process that ends does not count as one that has read why, though its thread goes on: else
// the server would leave before the last of the others knows.
TEST_F(HeartbeatTest, TheServerStaysUntilAllThatLiveHaveReadTheCause) {
  const auto server = heartbeat(0), ending = heartbeat(1), other = heartbeat(2);
  ending->give_up({3, "rank 1: its shard is damaged"});
  for (Heartbeat* reader : {server.get(), other.get()}) {
    const std::optional<Loss> loss = wait_for_loss(*reader);
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->exit_code, 3);
    EXPECT_EQ(loss->cause, "rank 1: its shard is damaged");
    EXPECT_EQ(loss->num_lost, 1);
  }
  server->give_up({5, "another process has ended the run"});
  EXPECT_EQ(num_readers(), 2);
  std::this_thread::sleep_for(1200ms);  // two beats of every thread
  EXPECT_EQ(num_readers(), 2);
}

// Two processes end by themselves: the second one is a reader of the first one's cause.
TEST_F(HeartbeatTest, TheCauseThatIsPutDownFirstCounts) {
  const auto server = heartbeat(0), first = heartbeat(1), second = heartbeat(2);
  first->give_up({3, "rank 1: its shard is damaged"});
  second->give_up({5, "rank 2: the disk is full"});
  EXPECT_GE(num_readers(), 1);
  const std::optional<Loss> loss = wait_for_loss(*server);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->cause, "rank 1: its shard is damaged");
  server->give_up({5, "rank 0: the disk is full"});
  EXPECT_EQ(num_readers(), 2);
}

// A process whose main thread hangs is ended, but not while it writes a checkpoint.
TEST_F(HeartbeatTest, AProcessThatSavesIsNotEndedBeforeItHasSaved) {
  std::atomic<bool> is_ended = false;
  Heartbeat saving(
      store_, Heartbeat::Group{1, {"rank 0", "rank 1", "rank 2"}, std::optional<int>(0)},
      [&](const Loss&) { is_ended = true; }, /*forced_end=*/300ms);
  saving.mark_saving(true);
  const auto ending = heartbeat(2);
  ending->give_up({5, "rank 2: the disk is full"});
  ASSERT_TRUE(wait_for_loss(saving));
  std::this_thread::sleep_for(1700ms);  // three beats
  EXPECT_FALSE(is_ended);
  saving.mark_saving(false);
  for (int i = 0; i < 100 && !is_ended; ++i) std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(is_ended);
}

// Without its limits any of these calls would wait for ever.
TEST_F(HeartbeatTest, AStoreThatDoesNotAnswerIsTheCauseAndHoldsUpNoCall) {
  const std::string cause = "rank 0, where the processes meet, has ended or cannot be reached";
  const auto waiting = heartbeat(1), searching = heartbeat(2), ending = heartbeat(2),
             leaving = heartbeat(2);
  const auto stopped = store_->stopped();
  const std::optional<Loss> loss = waiting->wait(
      {0}, [store = store_] { return store->check({"key"}); }, 500ms);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->cause, cause);
  EXPECT_EQ(loss->exit_code, 5);
  EXPECT_EQ(searching->find_cause("timed out").cause, cause + ": timed out");
  EXPECT_FALSE(Heartbeat::ask([store = store_] { return store->check({"key"}); }));
  ending->give_up({5, "rank 2: the disk is full"});
  leaving->leave();
}

}  // namespace
}  // namespace lmtrain
