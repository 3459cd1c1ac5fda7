#include "processes/connect.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/hash.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "processes/tree_sum.h"
#include "processes/watch.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A process, as it presents itself to the others.
struct Member {
  std::string host;
  std::string machine;  // differs between machines of one name
  int64_t process = 0;
  int local_rank = -1;      // -1: not told by the launcher
  uint64_t processors = 0;  // a hash of those that it may use
};

Member this_member(const Launch& launch) {
  Member member;
  std::vector<char> host(256);
  if (::gethostname(host.data(), host.size() - 1) == 0) member.host = host.data();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  member.machine = member.host + boot;
  member.process = ::getpid();
  member.local_rank = launch.local_rank.value_or(-1);
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (::sched_getaffinity(0, sizeof processors, &processors) == 0) {
    member.processors = hash64({reinterpret_cast<const char*>(&processors), sizeof processors});
  }
  return member;
}

std::string member_to_text(const Member& member) {
  return str(member.process, " ", member.local_rank, " ", member.processors, " ", member.machine,
             " ", member.host);
}

Member member_from_text(const std::string& text) {
  Member member;
  std::istringstream(text) >> member.process >> member.local_rank >> member.processors >>
      member.machine >> member.host;
  return member;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// c10d and Gloo print to the standard streams while they connect; what goes wrong they throw.
class QuietStreams {
 public:
  QuietStreams() {
    const std::lock_guard lock(shared().mutex);
    if (shared().users++ > 0) return;
    shared().out = std::cout.rdbuf(&shared().nothing);
    shared().err = std::cerr.rdbuf(&shared().nothing);
  }
  ~QuietStreams() {
    const std::lock_guard lock(shared().mutex);
    if (--shared().users > 0) return;
    std::cout.rdbuf(shared().out);
    std::cerr.rdbuf(shared().err);
  }
  QuietStreams(const QuietStreams&) = delete;
  QuietStreams& operator=(const QuietStreams&) = delete;

 private:
  struct Nothing : std::streambuf {
    int overflow(int character) override { return traits_type::not_eof(character); }
  };
  struct Shared {
    std::mutex mutex;  // guards the rest
    int users = 0;
    std::streambuf* out = nullptr;
    std::streambuf* err = nullptr;
    Nothing nothing;
  };
  static Shared& shared() {
    static auto* all = new Shared;
    return *all;
  }
};

c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launch.port);
  options.isServer = launch.rank == 0 && !launch.agent_store;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    // An earlier attempt of torchrun has left keys in its store, which are not ours.
    return c10::make_intrusive<c10d::PrefixStore>(
        str("lmtrain/", launch.attempt),
        c10::make_intrusive<c10d::TCPStore>(launch.address, options));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kIo,
                str("rank ", launch.rank, " of ", launch.count, " cannot ",
                    options.isServer ? "listen at " : "reach ", launch.address, ":", launch.port,
                    " (MASTER_ADDR, MASTER_PORT): ", first_line(error.what()),
                    options.isServer ? "; is the port in use? choose another one in MASTER_PORT"
                                     : "; is the process of rank 0 running, and the port open?"));
  }
}

// Everybody presents itself, and waits for all others.
std::vector<Member> gather_members(c10d::Store& store, const Launch& launch, milliseconds timeout) {
  const auto key = [](int rank) { return str("member/", rank); };
  store.set(key(launch.rank), member_to_text(this_member(launch)));
  const auto deadline = Clock::now() + timeout;
  std::vector<Member> members;
  std::vector<std::string> missing;
  for (int rank = 0; rank < launch.count; ++rank) {
    while (!store.check({key(rank)}) && Clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(20));
    if (store.check({key(rank)})) {
      members.push_back(member_from_text(store.get_to_str(key(rank))));
    } else {
      missing.push_back(str(rank));
    }
  }
  if (missing.empty()) return members;
  throw Error(ErrorKind::kIo,
              str("rank ", join(missing, ", "), " of ", launch.count, " has not come to ",
                  launch.address, ":", launch.port, " within ", timeout.count() / 1000, " s"));
}

// Gloo's part of the time limit; the rest is for finding out who is lost.
milliseconds exchange_limit(milliseconds timeout) {
  const milliseconds search = std::chrono::seconds(5);
  return timeout > 2 * search ? timeout - search : timeout / 2;
}

// Ends a process whose main thread hangs although the run is over.
void end_process(const Loss& loss) {
  log_error(loss.cause);
  ::_exit(loss.exit_code);
}

class GlooProcesses final : public Processes {
 public:
  GlooProcesses(const Launch& launch, c10::intrusive_ptr<c10d::Store> store,
                const std::vector<Member>& members, milliseconds timeout)
      : store_(std::move(store)), timeout_(timeout) {
    rank_ = launch.rank;
    count_ = launch.count;
    const Member& self = members[static_cast<size_t>(rank_)];
    local_count_ = 0;
    processor_sharers_ = 0;
    for (int rank = 0; rank < count_; ++rank) {
      const Member& member = members[static_cast<size_t>(rank)];
      names_.push_back(str("rank ", rank, " (", member.host, ", process ", member.process, ")"));
      if (member.machine != self.machine) continue;
      if (rank == rank_) local_rank_ = local_count_;
      ++local_count_;
      if (member.processors == self.processors) ++processor_sharers_;
    }
    if (self.local_rank >= 0) local_rank_ = self.local_rank;

    const auto options = c10d::ProcessGroupGloo::Options::create(exchange_limit(timeout));
    options->devices.push_back(local_count_ == count_
                                   ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                   : c10d::ProcessGroupGloo::createDefaultDevice());
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo", store_), rank_, count_, options);
    watch_.emplace(
        c10::make_intrusive<c10d::PrefixStore>("watch", store_->clone()),
        Watch::Group{rank_, names_, launch.agent_store ? std::nullopt : std::optional<int>(0)},
        end_process);
  }

  void sum(const at::Tensor& flat) override {
    in_host_memory(flat, [&](const at::Tensor& host) {
      exchange("sum", [&] {
        std::vector<at::Tensor> tensors = {host};
        group_->allreduce(tensors)->wait();
      });
    });
  }

  void sum_as_tree(const at::Tensor& flat) override {
    in_host_memory(flat, [&](const at::Tensor& host) {
      tree_sum(host, rank_, count_,
               [&](int partner, const at::Tensor& give, const at::Tensor& take) {
                 exchange("sum", [&] { swap(partner, give, take); });
               });
    });
  }

  void broadcast(const at::Tensor& values) override {
    in_host_memory(values, [&](const at::Tensor& host) {
      exchange("broadcast", [&] {
        std::vector<at::Tensor> tensors = {host};
        group_->broadcast(tensors)->wait();
      });
    });
  }

  std::string broadcast(const std::string& bytes) override {
    const at::Tensor size = at::full({1}, static_cast<int64_t>(bytes.size()), at::kLong);
    broadcast(size);
    const at::Tensor values = at::empty({size.item<int64_t>()}, at::kByte);
    if (is_first()) std::copy(bytes.begin(), bytes.end(), values.data_ptr<uint8_t>());
    if (values.numel() > 0) broadcast(values);
    const auto* data = reinterpret_cast<const char*>(values.data_ptr<uint8_t>());
    return {data, static_cast<size_t>(values.numel())};
  }

  std::vector<double> all_gather(const std::vector<double>& values) override {
    const auto size = static_cast<int64_t>(values.size());
    at::Tensor mine = at::empty({size}, at::kDouble);
    std::copy(values.begin(), values.end(), mine.data_ptr<double>());
    at::Tensor all = at::empty({size * count_}, at::kDouble);
    exchange("all_gather", [&] { group_->_allgather_base(all, mine)->wait(); });
    return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
  }

  std::vector<std::string> gather_texts(const std::string& text) override {
    const std::vector<double> sizes =
        all_gather(std::vector<double>{static_cast<double>(text.size())});
    const auto longest = static_cast<int64_t>(*std::max_element(sizes.begin(), sizes.end()));
    std::vector<std::string> texts(static_cast<size_t>(count_));
    if (longest == 0) return texts;
    at::Tensor mine = at::zeros({longest}, at::kByte);
    std::copy(text.begin(), text.end(), mine.data_ptr<uint8_t>());
    at::Tensor all = at::empty({longest * count_}, at::kByte);
    exchange("all_gather", [&] { group_->_allgather_base(all, mine)->wait(); });
    const auto* data = reinterpret_cast<const char*>(all.data_ptr<uint8_t>());
    for (size_t rank = 0; rank < texts.size(); ++rank) {
      texts[rank].assign(data + rank * static_cast<size_t>(longest),
                         static_cast<size_t>(sizes[rank]));
    }
    return texts;
  }

  void barrier() override { all_gather(std::vector<double>{0}); }

  void tell(const std::string& message) override {
    guarded("tell", [&] { store_->set(str("told/", told_++), message); });
  }

  std::string listen() override {
    const std::string key = str("told/", told_++);
    wait({0}, [store = store_, key] { return store->check({key}); });
    std::string message;
    guarded("listen", [&] { message = store_->get_to_str(key); });
    return message;
  }

  void meet(const std::string& stage) override {
    guarded("meet", [&] { store_->add(str("met/", stage), 1); });
    std::vector<int> others;
    for (int rank = 0; rank < count_; ++rank) {
      if (rank != rank_) others.push_back(rank);
    }
    wait(others, [store = store_, key = str("met/", stage), count = count_] {
      return store->add(key, 0) >= count;
    });
  }

  void set_timeout(milliseconds timeout) override {
    timeout_ = timeout;
    group_->setTimeout(exchange_limit(timeout));
  }

  void give_up(int exit_code, const std::string& cause) noexcept override {
    try {
      watch_->give_up({exit_code, str(name_of(rank_), ": ", cause)});
    } catch (...) {  // out of memory; the others find out by themselves
    }
  }

  void leave() override {
    barrier();
    watch_->leave();
  }

  std::string name_of(int rank) const override { return names_[static_cast<size_t>(rank)]; }

 private:
  [[noreturn]] static void throw_lost(const Loss& loss) {
    throw ProcessLost(loss.exit_code, str("another process has ended the run: ", loss.cause));
  }

  template <class Work>
  void guarded(const char* what, const Work& work) {
    try {
      work();
    } catch (const std::exception& error) {
      throw_lost(watch_->find_cause(
          str(what, " ", watch_->exchanges(), " failed: ", first_line(error.what()))));
    }
  }

  template <class Work>
  void exchange(const char* what, const Work& work) {
    watch_->count_exchange();
    guarded(what, work);
  }

  void wait(const std::vector<int>& awaited, const std::function<bool()>& done) {
    if (const auto loss = watch_->wait(awaited, done, timeout_)) throw_lost(*loss);
  }

  void swap(int partner, const at::Tensor& give, const at::Tensor& take) {
    std::vector<at::Tensor> given = {give}, taken = {take};
    c10::intrusive_ptr<c10d::Work> receiving, sending;
    if (take.numel() > 0) receiving = group_->recv(taken, partner, 0);
    if (give.numel() > 0) sending = group_->send(given, partner, 0);
    const milliseconds limit = exchange_limit(timeout_);
    if (sending) sending->wait(limit);
    if (receiving) receiving->wait(limit);
  }

  template <class Work>
  static void in_host_memory(const at::Tensor& values, const Work& work) {
    if (values.is_cpu()) {
      work(values);
      return;
    }
    const at::Tensor host = values.cpu();
    work(host);
    values.copy_(host);
  }

  c10::intrusive_ptr<c10d::Store> store_;
  milliseconds timeout_;
  std::vector<std::string> names_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::optional<Watch> watch_;
  int64_t told_ = 0;
};

}  // namespace

std::unique_ptr<Processes> connect_processes(const Launch& launch, milliseconds timeout) {
  const QuietStreams quiet;
  const c10::intrusive_ptr<c10d::Store> store = connect_store(launch, timeout);
  try {
    const std::vector<Member> members = gather_members(*store, launch, timeout);
    return std::make_unique<GlooProcesses>(launch, store, members, timeout);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kIo, str("rank ", launch.rank, " of ", launch.count,
                                    " cannot connect to the others: ", first_line(error.what())));
  }
}

}  // namespace lmtrain
