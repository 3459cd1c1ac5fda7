// Messages between the processes that prepare data, one of each machine.
#include "processes/peer_sockets.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/text.h"
#include "processes/group.h"

namespace lmtrain {
namespace {

// Rank r of so many is the first of a machine of its own.
void as_leaders(int count, const std::function<void(Peers&, Processes&)>& work) {
  as_ranks(
      count,
      [&](Processes& processes) {
        EXPECT_EQ(std::ssize(processes.leaders()), count);
        work(processes.among_leaders(), processes);
      },
      {}, [](Launch& launch) { launch.local_rank = 0; });
}

std::shared_ptr<const std::string> message(const std::string& text) {
  return std::make_shared<const std::string>(text);
}

TEST(PeerSockets, MessagesOfAnySizeComeInTheirOrder) {
  for (const int count : {2, 4}) {
    as_leaders(count, [&](Peers& peers, Processes& processes) {
      EXPECT_EQ(peers.rank(), processes.rank());
      EXPECT_EQ(peers.count(), count);
      EXPECT_EQ(peers.name_of(1), processes.name_of(1));
      const auto text = [](int rank, size_t size) {
        return str(rank, " ", size, std::string(size, 'a' + static_cast<char>(rank)));
      };
      const std::vector<size_t> sizes = {0, 1, 7, 100'000, 30'000'000, 3};
      // All send before they receive.
      for (int to = 0; to < count; ++to) {
        if (to == peers.rank()) continue;
        peers.send(to, message(""));
        for (const size_t size : sizes) peers.send(to, message(text(peers.rank(), size)));
      }
      for (int from = 0; from < count; ++from) {
        if (from == peers.rank()) continue;
        EXPECT_EQ(peers.receive(from), "");
        for (const size_t size : sizes)
          EXPECT_TRUE(peers.receive(from) == text(from, size)) << from << " " << size;
      }
      const std::vector<std::string> all = peers.exchange(str("of ", peers.rank()));
      for (int rank = 0; rank < count; ++rank)
        EXPECT_EQ(all[static_cast<size_t>(rank)], str("of ", rank));
    });
  }
}

TEST(PeerSockets, ThreadsMaySendTogether) {
  static constexpr int kThreads = 4;
  static constexpr int kMessages = 200;
  as_leaders(2, [](Peers& peers, Processes&) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kMessages; ++i)
          peers.send(1 - peers.rank(), message(str(thread, std::string(5000, 'x'))));
      });
    }
    std::vector<int> received(kThreads);
    for (int i = 0; i < kThreads * kMessages; ++i) {
      const std::string text = peers.receive(1 - peers.rank());
      EXPECT_EQ(text.size(), 5001U);
      ++received[static_cast<size_t>(text[0] - '0')];
    }
    EXPECT_EQ(received, std::vector<int>(kThreads, kMessages));
    for (std::thread& thread : threads) thread.join();
  });
}

// It waits longer than the timeout, as for a process that reads much text.
TEST(PeerSockets, AProcessThatLivesIsWaitedFor) {
  as_leaders(2, [](Peers& peers, Processes& processes) {
    processes.set_timeout(std::chrono::seconds(8));  // more than a busy machine pauses
    if (peers.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(10));
    EXPECT_EQ(peers.exchange("it").size(), 2U);
  });
}

TEST(PeerSockets, WhoGivesUpIsNamed) {
  std::atomic<int> named = 0;
  const testing::ReservedPort port;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      Launch launch = launch_of(rank, 3, port.number());
      launch.local_rank = 0;
      std::unique_ptr<Processes> processes = connect_processes(launch, std::chrono::seconds(60));
      Peers& peers = processes->among_leaders();
      peers.exchange("");
      if (rank == 1) {
        processes->give_up(3, "its text is damaged");
        processes.reset();
        return;
      }
      try {
        peers.receive(rank == 0 ? 1 : 0);  // rank 0 itself sends nothing to rank 2
      } catch (const ProcessLost& lost) {
        const std::string said = lost.what();
        EXPECT_NE(said.find("rank 1 ("), std::string::npos) << said;
        EXPECT_NE(said.find("its text is damaged"), std::string::npos) << said;
        EXPECT_EQ(lost.exit_code(), 3);
        ++named;
        peers.send(1, message("too late"));  // nothing happens
        // As the program does: rank 0 serves the store, and stays until rank 2 has read the cause.
        processes->give_up(lost.exit_code(), lost.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(named, 2);
}

}  // namespace
}  // namespace lmtrain
