#include "processes/peer_sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "base/error.h"
#include "base/random_id.h"
#include "base/stop.h"
#include "base/text.h"
#include "base/threads.h"
#include "device/torch_headers.h"
#include "processes/gloo_link.h"

namespace lmtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr auto kPause = 200ms;    // between two looks at the signs of life
constexpr auto kGreeting = 2s;    // for a process that has connected to say who it is
constexpr size_t kHeadBytes = 8;  // size of the message that follows, little-endian as the machine

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList addresses_of(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int problem =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (problem != 0)
    throw Error(ErrorKind::kIo, str("the address ", host, ": ", ::gai_strerror(problem)));
  return {found, ::freeaddrinfo};
}

[[noreturn]] void fail_on_socket(const std::string& what, int number) {
  throw Error(ErrorKind::kIo, str(what, ": ", std::strerror(number)));
}

Socket listen_at(const std::string& address) {
  int problem = 0;
  const AddressList list = addresses_of(address, "0", AI_PASSIVE);
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    Socket socket(::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, 0));
    if (socket.get() >= 0 && ::bind(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0)
      return socket;
    problem = errno;
  }
  fail_on_socket(str("cannot listen at ", address), problem);
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail_on_socket("the port that the system has chosen", errno);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

// Returns early, with false, where a signal arrives.
bool is_ready(int socket, short events, milliseconds patience) {
  pollfd one{socket, events, 0};
  return ::poll(&one, 1,
                static_cast<int>(std::min<milliseconds>(patience, std::chrono::hours(1)).count())) >
         0;
}

bool is_connected(int socket, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (is_ready(socket, POLLOUT, kPause)) return true;
    throw_if_stopped();
  }
  return false;
}

Socket connect_to(const std::string& address, const std::string& port, milliseconds patience) {
  int problem = 0;
  const AddressList list = addresses_of(address, port, 0);
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    Socket socket(::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.get() >= 0 && ::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0)
      return socket;
    problem = errno;
    if (problem != EINPROGRESS) continue;
    problem = ETIMEDOUT;
    socklen_t size = sizeof problem;
    if (is_connected(socket.get(), patience))
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
    if (problem == 0) return socket;
  }
  fail_on_socket(str("cannot reach ", address, ":", port), problem);
}

// The first bytes of a connection: the text that the store has for the listener, and the index of
// the process that connects, four digits.
std::string greeting(const std::string& token, int self) { return token + printed("%04.0f", self); }

std::optional<std::string> read_greeting(int socket, size_t size) {
  std::string bytes(size, '\0');
  const auto deadline = std::chrono::steady_clock::now() + kGreeting;
  for (size_t have = 0; have < size;) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !is_ready(socket, POLLIN, left)) return std::nullopt;
    const ssize_t count = ::recv(socket, bytes.data() + have, size - have, MSG_DONTWAIT);
    if (count <= 0) return std::nullopt;
    have += static_cast<size_t>(count);
  }
  return bytes;
}

}  // namespace

// A connection to one peer.
struct PeerConnection {
  Socket socket;
  bool closed = false;
  std::string problem;  // why
  std::deque<std::shared_ptr<const std::string>> outgoing;
  size_t sent = 0;  // of the first, its head included
  std::array<char, kHeadBytes> head{};
  std::string message;  // that arrives
  size_t received = 0;  // of it, its head included
  std::deque<std::string> arrived;

  void close_with(const std::string& why) {
    closed = true;
    problem = why;
    outgoing.clear();
  }
  void send_some();
  bool receive_some();
};

void PeerConnection::send_some() {
  while (!outgoing.empty()) {
    const std::string& content = *outgoing.front();
    const uint64_t size = content.size();
    std::array<char, kHeadBytes> bytes{};
    std::memcpy(bytes.data(), &size, sizeof size);
    const bool in_head = sent < kHeadBytes;
    const char* from = in_head ? bytes.data() + sent : content.data() + (sent - kHeadBytes);
    const size_t left = in_head ? kHeadBytes - sent : content.size() + kHeadBytes - sent;
    if (left > 0) {
      const ssize_t count =
          ::send(socket.get(), from, left, MSG_NOSIGNAL | MSG_DONTWAIT | (in_head ? MSG_MORE : 0));
      if (count < 0) {
        if (errno == EAGAIN || errno == EINTR) return;
        return close_with(std::strerror(errno));
      }
      sent += static_cast<size_t>(count);
    }
    if (sent < kHeadBytes + content.size()) continue;
    outgoing.pop_front();
    sent = 0;
  }
}

// Returns whether a message has arrived.
bool PeerConnection::receive_some() {
  const bool in_head = received < kHeadBytes;
  char* to = in_head ? head.data() + received : message.data() + (received - kHeadBytes);
  const size_t left = in_head ? kHeadBytes - received : message.size() + kHeadBytes - received;
  const ssize_t count = ::recv(socket.get(), to, left, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    close_with(count == 0 ? "the connection was closed" : std::strerror(errno));
    return true;
  }
  received += static_cast<size_t>(count);
  if (received == kHeadBytes && in_head) {
    uint64_t size = 0;
    std::memcpy(&size, head.data(), sizeof size);
    try {
      message.resize(size);
    } catch (const std::exception&) {  // bad_alloc or length_error
      close_with(str("no memory for a message of ", format_bytes(size)));
      return true;
    }
  }
  if (received < kHeadBytes + message.size()) return false;
  arrived.push_back(std::exchange(message, {}));
  received = 0;
  return true;
}

struct PeerSockets::State {
  std::mutex mutex;  // guards the connections
  std::condition_variable changed;
  std::vector<PeerConnection> connections;  // by index of the peer; none to itself
  Socket wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  bool stop = false;
  std::thread thread;

  void wake_up() const {
    const uint64_t one = 1;
    (void)!::write(wake.get(), &one, sizeof one);
  }
  void hold(int peer, Socket socket) {
    // Nothing is sent for hours while text is read. A network that forgets such connections must
    // not, and a connection that is lost must be noticed.
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    for (const auto& [option, value] : {std::pair(TCP_NODELAY, 1), std::pair(TCP_KEEPIDLE, 60),
                                        std::pair(TCP_KEEPINTVL, 10), std::pair(TCP_KEEPCNT, 6)})
      ::setsockopt(socket.get(), IPPROTO_TCP, option, &value, sizeof value);
    connections[static_cast<size_t>(peer)].socket = std::move(socket);
  }
  // Waits a moment; returns whether a message of that peer is there, or none will come.
  bool wait_for(int peer) {
    std::unique_lock lock(mutex);
    const PeerConnection& one = connections[static_cast<size_t>(peer)];
    return changed.wait_for(lock, kPause, [&] { return !one.arrived.empty() || one.closed; });
  }
  void run();
};

void PeerSockets::State::run() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.assign(1, {wake.get(), POLLIN, 0});
    {
      const std::lock_guard lock(mutex);
      if (stop) return;
      for (const PeerConnection& one : connections) {
        const auto events = static_cast<short>(POLLIN | (one.outgoing.empty() ? 0 : POLLOUT));
        polled.push_back({one.closed ? -1 : one.socket.get(), events, 0});
      }
    }
    ::poll(polled.data(), polled.size(), -1);
    uint64_t ignored = 0;
    (void)!::read(wake.get(), &ignored, sizeof ignored);
    const std::lock_guard lock(mutex);
    bool has_news = false;
    for (size_t i = 0; i < connections.size(); ++i) {
      const short events = polled[i + 1].revents;
      if ((events & POLLOUT) != 0) connections[i].send_some();
      if ((events & (POLLIN | POLLERR | POLLHUP)) != 0)
        has_news = connections[i].receive_some() || has_news;
      has_news = has_news || connections[i].closed;
    }
    if (has_news) changed.notify_all();
  }
}

PeerSockets::PeerSockets(const c10::intrusive_ptr<c10d::Store>& store, Watch& watch,
                         PeerGroup group, milliseconds patience)
    : Peers(group.self, static_cast<int>(group.ranks.size())),
      watch_(watch),
      group_(std::move(group)),
      patience_(patience),
      state_(std::make_shared<State>()) {
  if (state_->wake.get() < 0) fail_on_socket("no descriptor to wake a thread with", errno);
  state_->connections.resize(group_.ranks.size());
  connect(store);
  state_->thread = start_thread([state = state_.get()] { state->run(); });
}

PeerSockets::~PeerSockets() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake_up();
  state_->thread.join();
}

// Each connects to those before it, and is connected to by those after it.
void PeerSockets::connect(const c10::intrusive_ptr<c10d::Store>& store) {
  const auto key = [&](int peer) { return str("peer/", group_.ranks[static_cast<size_t>(peer)]); };
  const Socket listener = listen_at(group_.address);
  const std::string token = random_id();
  const std::string host = group_.address.empty() ? host_name() : group_.address;
  store->set(key(rank()), str(host, " ", port_of(listener.get()), " ", token));
  for (int peer = 0; peer < rank(); ++peer) {
    const auto told = std::make_shared<std::string>();
    wait({peer}, [store, name = key(peer), told] {
      if (!store->check({name})) return false;
      *told = store->get_to_str(name);
      return true;
    });
    std::istringstream place(*told);
    std::string address, port, its_token;
    place >> address >> port >> its_token;
    Socket socket = connect_to(address, port, GlooLink::limit_of(patience_));
    const std::string hello = greeting(its_token, rank());
    if (::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) != std::ssize(hello))
      fail_on_socket(str("cannot greet ", name_of(peer)), errno);
    state_->hold(peer, std::move(socket));
  }
  for (int missing = count() - 1 - rank(); missing > 0;) {
    std::vector<int> later;
    for (int peer = rank() + 1; peer < count(); ++peer) {
      if (state_->connections[static_cast<size_t>(peer)].socket.get() < 0) later.push_back(peer);
    }
    // Watch::wait() may leave this behind, so it has a descriptor of its own.
    const auto own = std::make_shared<Socket>(::fcntl(listener.get(), F_DUPFD_CLOEXEC, 0));
    if (own->get() < 0) fail_on_socket("a connection of a peer cannot be awaited", errno);
    wait(later, [own] { return is_ready(own->get(), POLLIN, kPause); });
    Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0 &&
        (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
      fail_on_socket("a connection of a peer cannot be accepted", errno);
    const std::string expected = greeting(token, 0);
    const auto hello =
        socket.get() < 0 ? std::nullopt : read_greeting(socket.get(), expected.size());
    if (!hello || !hello->starts_with(token)) continue;  // no process of this run
    const int peer = std::atoi(hello->c_str() + token.size());
    if (std::find(later.begin(), later.end(), peer) == later.end()) continue;
    state_->hold(peer, std::move(socket));
    --missing;
  }
}

void PeerSockets::send(int to, std::shared_ptr<const std::string> message) {
  {
    const std::lock_guard lock(state_->mutex);
    PeerConnection& one = state_->connections[static_cast<size_t>(to)];
    if (one.closed) return;  // who waits for it, or meets it, finds out why
    one.outgoing.push_back(std::move(message));
  }
  state_->wake_up();
}

bool PeerSockets::has_message(int from) {
  const std::lock_guard lock(state_->mutex);
  const PeerConnection& one = state_->connections[static_cast<size_t>(from)];
  return one.closed || !one.arrived.empty();
}

std::string PeerSockets::receive(int from) {
  if (!has_message(from)) wait({from}, [state = state_, from] { return state->wait_for(from); });
  const std::lock_guard lock(state_->mutex);
  PeerConnection& one = state_->connections[static_cast<size_t>(from)];
  if (one.arrived.empty())
    throw_lost(watch_.find_cause(str("a message of ", name_of(from), ": ", one.problem)));
  std::string message = std::move(one.arrived.front());
  one.arrived.pop_front();
  return message;
}

void PeerSockets::wait(const std::vector<int>& peers, const std::function<bool()>& done) {
  std::vector<int> awaited;
  for (const int peer : peers) awaited.push_back(group_.ranks[static_cast<size_t>(peer)]);
  const auto is_over = [done] { return stop_signal() != 0 || done(); };
  if (const auto loss = watch_.wait(awaited, is_over, patience_)) throw_lost(*loss);
  throw_if_stopped();
}

}  // namespace lmtrain
