// Ranks as threads of the test, connected as processes are.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "processes/connect.h"

namespace lmtrain {

// A port of this machine that nobody listens at.
inline int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address);
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

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
  const std::vector<ElementRange> ranges = even_ranges(flat.numel(), processes.count());
  processes.sum_ranges(flat, ranges);
  processes.gather_ranges(flat, ranges);
}

// Runs `work` as each rank; what one of them throws is thrown here.
inline void as_ranks(int count, const std::function<void(Processes&)>& work,
                     const NcclLibrary& library = {}) {
  const int port = free_port();
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const std::unique_ptr<Processes> processes =
            connect_processes(launch_of(rank, count, port), std::chrono::seconds(60), library);
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
