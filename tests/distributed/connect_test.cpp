// The exchanges between ranks, over Gloo.
#include "distributed/connect.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sin.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "device/failure.h"
#include "device/torch_headers.h"
#include "distributed/comm_thread.h"
#include "distributed/group.h"

namespace lmtrain {
namespace {

// Rank r's values: no two ranks' sums come out alike in another order.
at::Tensor values_of(int rank, int64_t size) {
  const at::Tensor index = at::arange(size, at::kDouble) + 1000.0 * rank;
  return (at::sin(index) * at::exp(at::cos(7 * index) * 5)).to(at::kFloat);
}

class Exchanges : public ::testing::TestWithParam<int> {};

TEST_P(Exchanges, EveryRankHasTheSameSum) {
  const int count = GetParam();
  for (const int64_t size : {1, 7, 100'003}) {
    at::Tensor expected = at::zeros({size}, at::kDouble);
    for (int rank = 0; rank < count; ++rank) expected += values_of(rank, size).to(at::kDouble);
    std::vector<at::Tensor> sums(static_cast<size_t>(count));
    as_ranks(count, [&](Processes& processes) {
      const at::Tensor flat = values_of(processes.rank(), size);
      processes.all_reduce(flat);
      sums[static_cast<size_t>(processes.rank())] = flat;
    });
    for (const at::Tensor& sum : sums) {
      EXPECT_TRUE(at::equal(sum, sums[0]));
      EXPECT_TRUE(at::allclose(sum.to(at::kDouble), expected, 1e-4, 1e-3));
    }
  }
}

TEST_P(Exchanges, BroadcastAndGather) {
  const int count = GetParam();
  as_ranks(count, [&](Processes& processes) {
    const int rank = processes.rank();
    EXPECT_EQ(processes.count(), count);
    EXPECT_EQ(processes.local_count(), count);
    EXPECT_EQ(processes.local_rank(), rank);
    EXPECT_EQ(processes.prepares(), rank == 0);
    EXPECT_EQ(processes.processor_sharers(), count);
    const std::string text(static_cast<size_t>(3 * rank), 'a' + static_cast<char>(rank));
    EXPECT_EQ(processes.broadcast(rank == 0 ? "from rank 0" : "none"), "from rank 0");
    EXPECT_EQ(processes.broadcast(std::string()), "");
    const std::vector<std::string> texts = processes.all_gather_texts(text);
    const std::vector<double> numbers = processes.all_gather_values({0.1 * rank, -1.0});
    for (int other = 0; other < count; ++other) {
      const auto i = static_cast<size_t>(other);
      EXPECT_EQ(texts[i], std::string(3 * i, 'a' + static_cast<char>(other)));
      EXPECT_EQ(numbers[2 * i], 0.1 * other);
      EXPECT_EQ(numbers[2 * i + 1], -1);
    }
    const at::Tensor values = values_of(rank, 5);
    processes.broadcast(values);
    EXPECT_TRUE(at::equal(values, values_of(0, 5)));
  });
}

TEST_P(Exchanges, RangesAreSummedAndGathered) {
  const int count = GetParam();
  constexpr int64_t kSize = 10'001;
  at::Tensor expected = at::zeros({kSize}, at::kDouble);
  for (int rank = 0; rank < count; ++rank) expected += values_of(rank, kSize).to(at::kDouble);
  const std::vector<ElementRange> ranges = evenly_divided({0, kSize}, count).ranges;
  std::vector<at::Tensor> sums(static_cast<size_t>(count));
  as_ranks(count, [&](Processes& processes) {
    const at::Tensor flat = values_of(processes.rank(), kSize);
    processes.reduce_scatter(flat, ranges);
    processes.all_gather(flat, ranges);
    sums[static_cast<size_t>(processes.rank())] = flat;
    const at::Tensor working = at::full({kSize}, processes.rank(), at::kBFloat16);
    processes.all_gather(working, ranges);
    for (int rank = 0; rank < count; ++rank) {
      const at::Tensor part = ranges[static_cast<size_t>(rank)].of(working);
      EXPECT_TRUE(at::equal(part, at::full_like(part, rank)));
    }
  });
  for (const at::Tensor& sum : sums) {
    EXPECT_TRUE(at::equal(sum, sums[0]));
    EXPECT_TRUE(at::allclose(sum.to(at::kDouble), expected, 1e-4, 1e-3));
  }
}

TEST_P(Exchanges, ATensorIsPassedFromOneToAnother) {
  const int last = GetParam() - 1;
  as_ranks(GetParam(), [&](Processes& processes) {
    at::Tensor values;
    if (processes.rank() == last) values = values_of(last, 12).view({3, 4}).t();  // not contiguous
    if (processes.is_first()) values = at::zeros({4, 3});
    processes.send_recv(values, last, 0);
    if (processes.is_first()) {
      EXPECT_TRUE(at::equal(values, values_of(last, 12).view({3, 4}).t()));
    }
    processes.send_recv(values, 0, 0);
  });
}

// Orders above 8 MiB too, which the store takes in pieces.
TEST_P(Exchanges, TellingAndMeeting) {
  const int count = GetParam();
  std::atomic<int> came = 0;
  const auto message = [](size_t i) {
    return "message " + std::to_string(i) + std::string(i * 5'000'000, 'x');
  };
  as_ranks(count, [&](Processes& processes) {
    for (size_t i = 0; i < 3; ++i) {
      if (processes.is_first()) {
        processes.broadcast_order(message(i));
      } else {
        EXPECT_TRUE(processes.receive_order() == message(i)) << i;
      }
    }
    ++came;
    processes.barrier("stage");
    EXPECT_EQ(came, count);
  });
}

// Another thread takes them, while the exchanges go on.
TEST_P(Exchanges, NotesAreTakenBesideTheExchanges) {
  as_ranks(GetParam(), [&](Processes& processes) {
    const int rank = processes.rank(), count = processes.count();
    const auto name = [](int to, int number) {
      return "note/" + std::to_string(to * 100 + number);
    };
    std::vector<std::string> taken;
    std::thread taker([&] {
      for (const int number : {1, 0})
        taken.push_back(processes.take_note(name(rank, number), rank == 0 ? count - 1 : rank - 1,
                                            std::chrono::minutes(1)));
    });
    for (int round = 0; round < 20; ++round) processes.barrier();
    const int to = (rank + 1) % count;
    processes.leave_note(name(to, 0), "");
    processes.leave_note(name(to, 1), std::string(300'000, 'n'));
    processes.barrier();
    taker.join();
    EXPECT_EQ(taken, (std::vector<std::string>{std::string(300'000, 'n'), ""}));
  });
}

// The work is done on the calling thread, and its error comes out.
TEST_P(Exchanges, WorkIsDoneWhileTheOthersAreWatched) {
  as_ranks(GetParam(), [&](Processes& processes) {
    std::thread::id worker;
    processes.while_watching([&] { worker = std::this_thread::get_id(); });
    EXPECT_EQ(worker, std::this_thread::get_id());
    EXPECT_THROW(
        processes.while_watching([] { throw Error(ErrorKind::kData, "the text is damaged"); }),
        Error);
    processes.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Exchanges, ::testing::Values(2, 3, 4));

// The leaves are the ranks, neighbours first, whatever the number of ranks that share them.
TEST(Connect, TheTreesOrderIsFixed) {
  constexpr int64_t kSize = 10'001;
  at::Tensor low = values_of(0, kSize) + values_of(1, kSize);
  at::Tensor high = values_of(2, kSize) + values_of(3, kSize);
  const at::Tensor tree = low + high;
  const at::Tensor chain = low + values_of(2, kSize) + values_of(3, kSize);
  ASSERT_FALSE(at::equal(tree, chain));  // else nothing is shown
  as_ranks(4, [&](Processes& processes) {
    const at::Tensor flat = values_of(processes.rank(), kSize);
    const std::vector<ElementRange> ranges = divided_at({0, 10, 10, 7000, kSize}).ranges;
    processes.reduce_scatter(flat, ranges);
    processes.all_gather(flat, ranges);
    EXPECT_TRUE(at::equal(flat, tree));
  });
}

TEST(Connect, OneProcessExchangesNothing) {
  Processes& one = only_process();
  EXPECT_TRUE(one.is_only());
  EXPECT_TRUE(one.is_first());
  const at::Tensor flat = values_of(0, 5);
  one.all_reduce(flat);
  one.reduce_scatter(flat, evenly_divided({0, 5}, 1).ranges);
  one.all_gather(flat, evenly_divided({0, 5}, 1).ranges);
  one.send_recv(flat, 0, 0);
  EXPECT_TRUE(at::equal(flat, values_of(0, 5)));
  EXPECT_EQ(one.all_gather_values({1.0, 2.0}), (std::vector<double>{1, 2}));
  EXPECT_EQ(one.broadcast("text"), "text");
}

// Rank 1 ends with a cause of its own; the others say it, with its exit code.
// What c10d says of lost connections is not logged; warnings of libtorch are.
TEST(Connect, LeavesWarningsOfLibtorchInTheLog) {
  ::testing::internal::CaptureStderr();
  as_ranks(2, [](Processes& processes) {
    log_torch_warnings();
    TORCH_WARN("two words of rank ", processes.rank());
    CommThread thread;
    thread.wait(thread.add([] { TORCH_WARN("and of its thread"); }));
  });
  const std::string log = ::testing::internal::GetCapturedStderr();
  for (const char* line : {"two words of rank 0\n", "two words of rank 1\n", "of its thread\n"})
    EXPECT_NE(log.find(line), std::string::npos) << log;
  EXPECT_EQ(log.find("[W"), std::string::npos) << log;
}

TEST(Connect, WhoGivesUpIsNamedByAll) {
  const testing::ReservedPort port;
  std::vector<std::string> messages(3);
  std::vector<int> codes(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<Processes> processes =
          connect_processes(launch_of(rank, 3, port.number()), std::chrono::seconds(60));
      processes->barrier();
      if (rank == 1) {
        processes->give_up(3, "its shard is damaged");
        processes.reset();
        return;
      }
      try {
        processes->barrier();
      } catch (const ProcessLost& lost) {
        messages[static_cast<size_t>(rank)] = lost.what();
        codes[static_cast<size_t>(rank)] = lost.exit_code();
        // As every process does that ends: the server of the store stays until all know.
        processes->give_up(lost.exit_code(), lost.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const size_t rank : {0, 2}) {
    EXPECT_NE(messages[rank].find("rank 1 ("), std::string::npos) << messages[rank];
    EXPECT_NE(messages[rank].find("its shard is damaged"), std::string::npos) << messages[rank];
    EXPECT_EQ(codes[rank], 3);
  }
}

// Under torchrun its agent serves the store, also to the processes that it starts again.
// Whoever waits for a note of a process that has ended is told; one that was left before is there.
TEST(Connect, ANoteOfAProcessThatHasEnded) {
  std::string cause, note;
  EXPECT_THROW(as_ranks(2,
                        [&](Processes& processes) {
                          if (processes.rank() == 1) {
                            processes.leave_note("left", "before the end");
                            processes.give_up(4, "diverged");
                            throw ProcessLost(4, "of its own");
                          }
                          try {
                            processes.take_note("never left", 1, std::chrono::minutes(1));
                          } catch (const ProcessLost& lost) {
                            cause = lost.what();
                          }
                          note = processes.take_note("left", 1, std::chrono::minutes(1));
                          throw ProcessLost(4, "as well");
                        }),
               ProcessLost);
  EXPECT_NE(cause.find("diverged"), std::string::npos) << cause;
  EXPECT_EQ(note, "before the end");
}

TEST(Connect, UnderAnAgentEveryRankIsAClient) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = 0;
  const c10d::TCPStore agent("127.0.0.1", options);
  for (int start = 0; start < 2; ++start) {  // the store keeps what the first has written
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        Launch launch = launch_of(rank, 2, agent.getPort());
        launch.agent_store = true;
        const auto processes = connect_processes(launch, std::chrono::seconds(60));
        EXPECT_EQ(processes->all_gather_values({1.0 * rank}), (std::vector<double>{0, 1}));
        processes->leave();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Connect, WhoDoesNotComeIsNamed) {
  const testing::ReservedPort port;
  try {
    connect_processes(launch_of(0, 3, port.number()), std::chrono::milliseconds(300));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("rank 1, 2 of 3 has not come"), std::string::npos)
        << error.what();
  }
  try {
    connect_processes(launch_of(1, 3, port.number()), std::chrono::milliseconds(300));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 of 3 cannot reach 127.0.0.1"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lmtrain
