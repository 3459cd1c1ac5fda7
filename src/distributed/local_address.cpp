#include "distributed/local_address.h"

#include <dlfcn.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

namespace lmtrain {
namespace {

constexpr const char* kAnyPort = "9";  // nothing is sent there

// The end of a socket on this machine; empty where it has none.
std::string address_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> digits{};
  if (::getsockname(socket, generic, &size) != 0) return "";
  if (::getnameinfo(generic, size, digits.data(), digits.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return digits.data();
}

}  // namespace

std::string local_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;  // connecting it only looks for a route
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), kAnyPort, &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const int socket = ::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    std::string address;
    if (::connect(socket, entry->ai_addr, entry->ai_addrlen) == 0) address = address_of(socket);
    ::close(socket);
    if (!address.empty()) return address;
  }
  return "";
}

bool is_loopback(const std::string& address) {
  return address.empty() || address == "::1" || address.starts_with("127.");
}

}  // namespace lmtrain

// Stands in front of the C library's function for the whole program, and gives addresses in digits.
// c10d names each address that connects, in a log that nobody reads. It asks the name server for
// the name; a run starts up to 20 seconds later for each connection if the server does not answer.
extern "C" __attribute__((visibility("default"))) int getnameinfo(  // NOLINT: a name of POSIX
    const sockaddr* address, socklen_t size, char* host, socklen_t host_size, char* service,
    socklen_t service_size, int flags) {
  using Function = decltype(&getnameinfo);
  static const auto next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getnameinfo"));
  return next(address, size, host, host_size, service, service_size,
              flags | NI_NUMERICHOST | NI_NUMERICSERV);
}
