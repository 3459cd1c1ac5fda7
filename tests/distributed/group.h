// Ranks as threads of the test, connected as processes are.
#pragma once

#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "distributed/connect.h"
#include "reserved_port.h"

namespace lmtrain {

// libtorch 2.11 records exchanges in a table of the whole process, into which it inserts a group
// before it takes the lock. Programs have one group; here, where each rank has one, no records are
// kept. This must stand before main(), since libtorch reads the variable once.
inline const int kNoFlightRecorder = ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);

// As in the program (base/stop.h): a rank that writes to one that has ended gets an error.
inline const auto kNoBrokenPipe = std::signal(SIGPIPE, SIG_IGN);

inline Launch launch_of(int rank, int count, int port) {
  Launch launch;
  launch.rank = rank;
  launch.count = count;
  launch.local_rank = rank;
  launch.address = "127.0.0.1";
  launch.port = port;
  launch.launcher = "a test";
  return launch;
}

// Sums `flat` over all processes by its two halves.
inline void sum_by_ranges(Processes& processes, const at::Tensor& flat) {
  const DividedRange all = evenly_divided({0, flat.numel()}, processes.count());
  processes.reduce_scatter(flat, all.ranges);
  processes.all_gather(flat, all.ranges);
}

// Runs `work` as each rank; what one of them throws is thrown here.
inline void as_ranks(int count, const std::function<void(Processes&)>& work,
                     const NcclLibrary& library = {}) {
  const testing::ReservedPort port;
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const std::unique_ptr<Processes> processes = connect_processes(
            launch_of(rank, count, port.number()), std::chrono::seconds(60), library);
        work(*processes);
        processes->leave();
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace lmtrain
