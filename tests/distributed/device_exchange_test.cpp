// The way over NCCL, by a library that does its work in host memory: sums, errors, and when
// tensors go through Gloo instead.
#include "distributed/device_exchange.h"

#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sin.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>

#include "device/torch_headers.h"
#include "distributed/group.h"
#include "distributed/stand_in_nccl.h"

namespace lmtrain {
namespace {

using std::chrono::milliseconds;
using testing::stand_in_nccl;

NcclLibrary stand_in() { return {LMTRAIN_STAND_IN_NCCL, at::kCPU}; }

at::Tensor values_of(int rank, int64_t size) {
  const at::Tensor index = at::arange(size, at::kDouble) + 1000.0 * rank;
  return (at::sin(index) * at::exp(at::cos(7 * index) * 5)).to(at::kFloat);
}

class DeviceExchanges : public ::testing::Test {
 protected:
  DeviceExchanges() { stand_in_nccl().reset(); }
};

TEST_F(DeviceExchanges, SumAndBroadcastAreTheLibrarys) {
  constexpr int kCount = 3;
  as_ranks(
      kCount,
      [](Processes& processes) {
        const at::Tensor flat = at::full({1001}, 1.0 + processes.rank(), at::kFloat);
        processes.all_reduce(flat);
        EXPECT_TRUE(at::equal(flat, at::full({1001}, 6.0, at::kFloat)));
        const at::Tensor empty = at::empty({0}, at::kFloat);
        processes.all_reduce(empty);
        const at::Tensor numbers = at::arange(5, at::kLong) + processes.rank();
        processes.broadcast(numbers);
        EXPECT_TRUE(at::equal(numbers, at::arange(5, at::kLong)));
      },
      stand_in());
  EXPECT_EQ(stand_in_nccl().connected, kCount) << "connected once, by the first tensor";
  EXPECT_EQ(stand_in_nccl().sums, kCount);
  EXPECT_EQ(stand_in_nccl().broadcasts, kCount);
  EXPECT_EQ(stand_in_nccl().aborted, 0) << "the end of the process frees what works";
}

// Four processes sum in a tree, three in a ring.
TEST_F(DeviceExchanges, RangesHaveTheBitsOfGloos) {
  for (const int count : {3, 4}) {
    for (const int64_t size : {0, 1, 10'001}) {
      std::vector<at::Tensor> sums;
      std::mutex mutex;
      for (const NcclLibrary& library : {stand_in(), NcclLibrary()}) {
        as_ranks(
            count,
            [&](Processes& processes) {
              const at::Tensor flat = values_of(processes.rank(), size);
              sum_by_ranges(processes, flat);
              const std::lock_guard lock(mutex);
              sums.push_back(flat);
            },
            library);
      }
      ASSERT_EQ(sums.size(), static_cast<size_t>(2 * count));
      for (const at::Tensor& sum : sums)
        EXPECT_TRUE(at::equal(sum, sums[0])) << count << " " << size;
    }
  }
  EXPECT_GT(stand_in_nccl().swaps, 0);
  EXPECT_GT(stand_in_nccl().all_gathers, 0);
  EXPECT_EQ(stand_in_nccl().reduce_scatters, 0) << "its order of additions is not the tree's";
}

// Ranges of different sizes, one of them empty, that leave out some elements: each process has the
// sum of its range, and after the gather all ranges. Nobody writes the elements in no range.
TEST_F(DeviceExchanges, RangesAreSummedAndGatheredByTheLibraryWhereOrderIsFree) {
  const std::vector<ElementRange> ranges = {{3, 700}, {703, 0}, {710, 291}};
  NcclLibrary library = stand_in();
  for (const bool keeps_order : {true, false}) {
    stand_in_nccl().reset();
    library.keeps_order = keeps_order;
    as_ranks(
        3,
        [&](Processes& processes) {
          const auto rank = static_cast<size_t>(processes.rank());
          const at::Tensor index = at::arange(1010, at::kFloat);
          const at::Tensor flat = index * (1.0 + processes.rank());
          processes.reduce_scatter(flat, ranges);
          EXPECT_TRUE(at::equal(ranges[rank].of(flat), 6 * ranges[rank].of(index)));
          for (const int64_t free : {2, 705, 1005})
            EXPECT_EQ(flat[free].item<double>(),
                      static_cast<double>(free * (1 + processes.rank())));
          processes.all_gather(flat, ranges);
          for (const ElementRange& range : ranges)
            EXPECT_TRUE(at::equal(range.of(flat), 6 * range.of(index)));
          // Any dtype is gathered.
          const at::Tensor bytes = at::full({1010}, 1 + processes.rank(), at::kByte);
          processes.all_gather(bytes, ranges);
          for (size_t other = 0; other < ranges.size(); ++other) {
            EXPECT_TRUE(
                ranges[other].of(bytes).eq(1 + static_cast<int64_t>(other)).all().item<bool>());
          }
        },
        library);
    EXPECT_EQ(stand_in_nccl().reduce_scatters, keeps_order ? 0 : 3);
    EXPECT_EQ(stand_in_nccl().all_gathers, 6);
  }
}

// The groups of threads have connections of their own, made once. They go through host memory where
// the processes do, which is said once.
TEST_F(DeviceExchanges, ExtraGroupsHaveConnectionsOfTheirOwn) {
  NcclLibrary library = stand_in();
  library.keeps_order = false;
  const auto work = [](Processes& processes) {
    for (int time = 0; time < 2; ++time) {
      RangeExchange& group = *processes.extra_groups(1, at::kCPU).front();
      const at::Tensor flat = values_of(processes.rank(), 1000);
      const std::vector<ElementRange> ranges = evenly_divided({0, 1000}, 2).ranges;
      group.reduce_scatter(flat, ranges);
      group.all_gather(flat, ranges);
      EXPECT_TRUE(at::equal(flat, values_of(0, 1000) + values_of(1, 1000)));
    }
  };
  as_ranks(2, work, library);
  EXPECT_EQ(stand_in_nccl().connected, 4) << "of the processes, and of the group";
  EXPECT_EQ(stand_in_nccl().reduce_scatters, 4);
  EXPECT_EQ(stand_in_nccl().all_gathers, 4);

  stand_in_nccl().reset();
  stand_in_nccl().shares_gpu = true;
  ::testing::internal::CaptureStderr();
  as_ranks(2, work, library);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(stand_in_nccl().connected, 0);
  const std::string said = "share one GPU";
  EXPECT_NE(log.find(said), std::string::npos) << log;
  EXPECT_EQ(log.find(said), log.rfind(said)) << log;
}

// A run may follow another one in the same processes, with another parallel.sum.
TEST_F(DeviceExchanges, ExtraGroupsTakeANewOrderOfAdditions) {
  NcclLibrary library = stand_in();
  library.keeps_order = false;
  as_ranks(
      2,
      [](Processes& processes) {
        RangeExchange& group = *processes.extra_groups(1, at::kCPU).front();
        processes.use_nccl(/*is_wanted=*/true, /*keeps_order=*/true);
        const at::Tensor flat = values_of(processes.rank(), 1000);
        const std::vector<ElementRange> ranges = evenly_divided({0, 1000}, 2).ranges;
        group.reduce_scatter(flat, ranges);
        group.all_gather(flat, ranges);
        EXPECT_TRUE(at::equal(flat, values_of(0, 1000) + values_of(1, 1000)));
      },
      library);
  EXPECT_EQ(stand_in_nccl().reduce_scatters, 0);
}

TEST_F(DeviceExchanges, OneProcessGetsItsOwnValues) {
  as_ranks(
      1,
      [](Processes& processes) {
        const at::Tensor flat = values_of(0, 100);
        processes.all_reduce(flat);
        sum_by_ranges(processes, flat);
        processes.broadcast(flat);
        EXPECT_TRUE(at::equal(flat, values_of(0, 100)));
      },
      stand_in());
  EXPECT_EQ(stand_in_nccl().sums, 1);
}

// Sums and broadcasts with two processes that must not come to the library's exchanges. Returns
// what was logged.
std::string log_of_fallback(
    const NcclLibrary& library, const std::function<void(Processes&)>& before = [](Processes&) {},
    milliseconds timeout = std::chrono::seconds(40)) {
  ::testing::internal::CaptureStderr();
  as_ranks(
      2,
      [&](Processes& processes) {
        before(processes);
        processes.set_timeout(timeout);
        for (int time = 0; time < 2; ++time) {
          const at::Tensor flat = at::full({7}, 1.0 + processes.rank(), at::kFloat);
          processes.all_reduce(flat);
          EXPECT_TRUE(at::equal(flat, at::full({7}, 3.0, at::kFloat)));
          processes.broadcast(flat);
          sum_by_ranges(processes, flat);
          EXPECT_TRUE(at::equal(flat, at::full({7}, 6.0, at::kFloat)));
        }
      },
      library);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(stand_in_nccl().sums, 0);
  EXPECT_EQ(stand_in_nccl().aborted, stand_in_nccl().connected);
  const std::string said = "through host memory and Gloo, which is slower: ";
  EXPECT_NE(log.find(said), std::string::npos) << log;
  EXPECT_EQ(log.find(said), log.rfind(said)) << "said more than once:\n" << log;
  return log;
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(DeviceExchanges, WithoutTheLibraryTensorsGoThroughHostMemory) {
  expect_in(log_of_fallback({"/nowhere/liblmtrain_nccl.so", at::kCPU}),
            "cannot use NCCL: the library does not load: /nowhere/liblmtrain_nccl.so");
  expect_in(log_of_fallback({LMTRAIN_OTHER_NCCL, at::kCPU}), "is not of this lmtrain");
}

TEST_F(DeviceExchanges, TurnedOffByTheConfig) {
  const std::string log =
      log_of_fallback(stand_in(), [](Processes& processes) { processes.use_nccl(false, true); });
  expect_in(log, "parallel.nccl is false");
  EXPECT_EQ(stand_in_nccl().connected, 0);
}

TEST_F(DeviceExchanges, TwoProcessesOnOneGpuAreNamed) {
  stand_in_nccl().shares_gpu = true;
  const std::string log = log_of_fallback(stand_in());
  expect_in(log, "rank 0 (");
  expect_in(log, "share one GPU, which NCCL does not allow");
  EXPECT_EQ(stand_in_nccl().connected, 0);
}

TEST_F(DeviceExchanges, OneProcessWithoutAGpuIsNamed) {
  stand_in_nccl().lacks_gpu = true;
  expect_in(log_of_fallback(stand_in()), "cannot use NCCL: no GPU, says the stand-in");
}

TEST_F(DeviceExchanges, VersionsThatDifferAreNamed) {
  stand_in_nccl().versions = 2;
  expect_in(log_of_fallback(stand_in()), "has NCCL 2280");
}

// NCCL finds out itself on one process, while the other waits for it.
TEST_F(DeviceExchanges, ARefusalInOneProcessIsAgreedByAll) {
  stand_in_nccl().refused_rank = 1;
  // The other process waits for half of what is left of the timeout after a search: 3.5 s.
  const std::string log = log_of_fallback(
      stand_in(), [](Processes&) {}, std::chrono::seconds(12));
  EXPECT_EQ(stand_in_nccl().connected, 2);
  expect_in(log, "rank 1 (");
  expect_in(log, "cannot use NCCL: Duplicate GPU detected");
}

// What two ranks throw from a sum by the library.
struct Ends {
  std::vector<std::string> messages{2};
  std::vector<int> codes{0, 0};
};

Ends ends_of_sum(milliseconds timeout, const std::function<void(Processes&)>& before_sum) {
  const testing::ReservedPort port;
  Ends ends;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Processes> processes = connect_processes(
          launch_of(rank, 2, port.number()), std::chrono::seconds(60), stand_in());
      const at::Tensor flat = at::ones({10}, at::kFloat);
      processes->all_reduce(flat);
      processes->set_timeout(timeout);
      processes->barrier();
      try {
        before_sum(*processes);
        processes->all_reduce(flat);
      } catch (const ProcessLost& lost) {
        ends.messages[static_cast<size_t>(rank)] = lost.what();
        ends.codes[static_cast<size_t>(rank)] = lost.exit_code();
        EXPECT_THROW(processes->all_reduce(flat), ProcessLost) << "the connection was ended";
        processes->give_up(lost.exit_code(), lost.what());
      } catch (const std::runtime_error& own) {
        processes->give_up(3, own.what());
        ends.messages[static_cast<size_t>(rank)] = own.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST_F(DeviceExchanges, AnErrorOfTheLibraryEndsAllWithItsCause) {
  const Ends ends = ends_of_sum(std::chrono::seconds(60),
                                [](const Processes&) { stand_in_nccl().failing_rank = 1; });
  for (const size_t rank : {0, 1}) {
    expect_in(ends.messages[rank], "failed: unhandled system error");
    expect_in(ends.messages[rank], "seen by rank 1 (");
    EXPECT_EQ(ends.codes[rank], 5);
  }
  EXPECT_EQ(stand_in_nccl().aborted, 2);
}

TEST_F(DeviceExchanges, AnExchangeThatDoesNotEndIsEndedAfterTheTimeout) {
  const Ends ends = ends_of_sum(std::chrono::seconds(3),
                                [](const Processes&) { stand_in_nccl().hanging_rank = 1; });
  for (const size_t rank : {0, 1}) {
    expect_in(ends.messages[rank], "NCCL has not finished within 1.5 s");
    EXPECT_EQ(ends.codes[rank], 5);
  }
  EXPECT_EQ(stand_in_nccl().aborted, 2);
}

// NCCL itself would wait for ever.
TEST_F(DeviceExchanges, AProcessThatHasGivenUpIsNamedByOneThatWaits) {
  const Ends ends = ends_of_sum(std::chrono::seconds(60), [](Processes& processes) {
    if (processes.rank() == 1) throw std::runtime_error("its shard is damaged");
  });
  expect_in(ends.messages[0], "rank 1 (");
  expect_in(ends.messages[0], "its shard is damaged");
  EXPECT_EQ(ends.codes[0], 3);
  EXPECT_EQ(stand_in_nccl().aborted, 1) << "the one that waited";
}

}  // namespace
}  // namespace lmtrain
