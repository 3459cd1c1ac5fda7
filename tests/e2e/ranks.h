// The processes of one run on this machine, started by the variables that torchrun sets.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "e2e/workspace.h"

namespace lmtrain::testing {

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

class Ranks {
 public:
  Ranks(int count, const std::vector<std::string>& arguments) {
    const std::string port = std::to_string(free_port());
    for (int rank = 0; rank < count; ++rank) {
      ProcessOptions options;
      options.env = {{"RANK", std::to_string(rank)},
                     {"LOCAL_RANK", std::to_string(rank)},
                     {"WORLD_SIZE", std::to_string(count)},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", port}};
      ranks_.push_back(std::make_unique<LmtrainProcess>(arguments, options));
    }
  }
  Process& operator[](size_t rank) { return *ranks_[rank]; }
  // Of every rank, in order.
  std::vector<ProcessResult> wait() {
    std::vector<ProcessResult> results;
    for (const auto& rank : ranks_) results.push_back(rank->wait());
    return results;
  }

 private:
  std::vector<std::unique_ptr<LmtrainProcess>> ranks_;
};

// What each rank of a whole command ended with.
inline std::vector<ProcessResult> lmtrain_as(int count, const std::vector<std::string>& arguments) {
  return Ranks(count, arguments).wait();
}

}  // namespace lmtrain::testing
