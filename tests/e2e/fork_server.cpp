#include "e2e/fork_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "e2e/process.h"

namespace lmtrain::testing {

ForkServer::ForkServer(const std::string& program, const std::string& library,
                       std::map<std::string, std::string> env) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0 ||
      ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    throw std::runtime_error("no socket, or no subreaper");
  socket_ = ends[0];
  ::fcntl(socket_, F_SETFD, FD_CLOEXEC);
  ProcessOptions options;
  options.env = std::move(env);
  options.env["LD_PRELOAD"] = library;
  options.env["ASAN_OPTIONS"] = "verify_asan_link_order=0";
  options.env["LD_BIND_NOW"] = "1";  // names are looked up once, and not after each fork
  options.env["LMTRAIN_FORK_SERVER"] = std::to_string(ends[1]);
  server_ = std::make_unique<Process>(std::vector<std::string>{program}, options);
  ::close(ends[1]);
}

ForkServer::~ForkServer() { ::close(socket_); }

pid_t ForkServer::start(const std::vector<std::string>& words,
                        const std::vector<std::string>& environment, const std::string& folder,
                        int out, int err) {
  std::string request = std::to_string(environment.size()) + '\0' + folder + '\0';
  for (const auto* texts : {&environment, &words})
    for (const std::string& text : *texts) request += text + '\0';
  const std::array<int, 2> files{out, err};
  iovec part{request.data(), request.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof files)> beside{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = beside.data();
  message.msg_controllen = beside.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof files);
  std::memcpy(CMSG_DATA(header), files.data(), sizeof files);
  int child = -1;
  if (::sendmsg(socket_, &message, MSG_NOSIGNAL) < 0 ||
      ::recv(socket_, &child, sizeof child, 0) != sizeof child || child < 0)
    throw std::runtime_error("the fork server has ended: " + server_->err());
  return child;
}

}  // namespace lmtrain::testing
