#include "distributed/connect.h"

#include <c10/util/Logging.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/stop.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "distributed/device_exchange.h"
#include "distributed/gloo_link.h"
#include "distributed/heartbeat.h"
#include "distributed/rendezvous.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono_literals::operator""s;

// Less than the ten seconds after which the heartbeat ends a process.
constexpr milliseconds kLastNote = 5s;
// A process that gives no sign of life for so long cannot be connected.
constexpr milliseconds kSignOfLife = 60s;

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

// c10d logs each lost connection, with a stack trace of libtorch. Heartbeat names the lost process.
// libtorch's warnings do not go through c10's log: log_torch_warnings() of device/failure.h.
void silence_c10d_log() { FLAGS_caffe2_log_level = c10::GLOG_FATAL; }

// Ends a process whose main thread hangs although the run is over.
void end_process(const Loss& loss) {
  print_last_error(loss.cause);
  ::_exit(loss.exit_code);
}

class GlooProcesses final : public Processes {
 public:
  GlooProcesses(const Launch& launch, const Rendezvous& found, milliseconds timeout,
                NcclLibrary library)
      : store_(found.store), timeout_(timeout), library_(std::move(library)) {
    rank_ = launch.rank;
    count_ = launch.count;
    const std::vector<Member>& members = found.members;
    const Member& self = members[static_cast<size_t>(rank_)];
    local_count_ = 0;
    processor_sharers_ = 0;
    for (int rank = 0; rank < count_; ++rank) {
      const Member& member = members[static_cast<size_t>(rank)];
      names_.push_back(str("rank ", rank, " (", member.host, ", process ", member.process, ")"));
      if (member.machine != self.machine) continue;
      ++local_count_;
      if (member.processors == self.processors) ++processor_sharers_;
    }
    local_rank_ = local_ranks(members)[static_cast<size_t>(rank_)];

    address_ = local_count_ == count_ ? "127.0.0.1" : address_for_others(members, self);
    heartbeat_.emplace(
        c10::make_intrusive<c10d::PrefixStore>("watch", store_->clone()),
        Heartbeat::Group{rank_, names_, launch.agent_store ? std::nullopt : std::optional<int>(0)},
        end_process);
    const auto group = connect_first_group();
    notes_ = c10::make_intrusive<c10d::PrefixStore>("notes", store_->clone());
    link_.emplace(
        group, *heartbeat_, timeout, [this](const at::Tensor& values) { return gpus_of(values); },
        library_.keeps_order);
  }

  void all_reduce(const at::Tensor& flat) override {
    where_exchanged(flat, [&](const at::Tensor& here) {
      exchange("sum", [&] {
        if (auto* gpus = gpus_of(here)) return gpus->all_reduce(here, link_->limit());
        std::vector<at::Tensor> tensors = {here};
        link_->group().allreduce(tensors)->wait();
      });
    });
  }

  void reduce_scatter(const at::Tensor& flat, const std::vector<ElementRange>& ranges) override {
    link_->reduce_scatter(flat, ranges);
  }

  void all_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges) override {
    link_->all_gather(flat, ranges);
  }

  std::vector<RangeExchange*> extra_groups(int count, const at::Device& device) override {
    while (extra_groups_.size() < static_cast<size_t>(count)) {
      const QuietStreams quiet;
      c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
      exchange("connection", [&] {
        group = connect_gloo(store_, str("gloo_aside/", extra_groups_.size()), rank_, count_,
                             address_, timeout_);
      });
      auto gpus = std::make_shared<ExtraGpus>();
      const auto gpus_of = [gpus, type = library_.device](const at::Tensor& values) {
        return values.device().type() == type ? gpus->exchange.get() : nullptr;
      };
      extra_groups_.push_back(
          {std::make_unique<GlooLink>(group, *heartbeat_, timeout_, gpus_of, library_.keeps_order),
           gpus});
    }
    std::vector<RangeExchange*> exchanges;
    for (int i = 0; i < count; ++i) {
      const ExtraGroup& group = extra_groups_[static_cast<size_t>(i)];
      connect_extra(*group.gpus, device);
      exchanges.push_back(group.link.get());
    }
    return exchanges;
  }

  void send_recv(const at::Tensor& values, int from, int to) override {
    const bool gives = rank_ == from && from != to, takes = rank_ == to && from != to;
    const at::Tensor none = at::empty({0});
    at::Tensor host = none;
    if (gives) host = values.cpu().contiguous();
    if (takes) host = at::empty(values.sizes(), values.options().device(at::kCPU));
    exchange("pass", [&] { link_->swap(to, gives ? host : none, from, takes ? host : none); });
    if (takes) values.copy_(host);
  }

  void broadcast(const at::Tensor& values) override {
    where_exchanged(values, [&](const at::Tensor& here) {
      exchange("broadcast", [&] {
        if (auto* gpus = gpus_of(here)) return gpus->broadcast(here, link_->limit());
        std::vector<at::Tensor> tensors = {here};
        link_->group().broadcast(tensors)->wait();
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

  std::vector<double> all_gather_values(const std::vector<double>& values) override {
    const auto size = static_cast<int64_t>(values.size());
    at::Tensor mine = at::empty({size}, at::kDouble);
    std::copy(values.begin(), values.end(), mine.data_ptr<double>());
    at::Tensor all = at::empty({size * count_}, at::kDouble);
    exchange("all_gather", [&] { link_->group()._allgather_base(all, mine)->wait(); });
    return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
  }

  std::vector<std::string> all_gather_texts(const std::string& text) override {
    const std::vector<double> sizes =
        all_gather_values(std::vector<double>{static_cast<double>(text.size())});
    const auto longest = static_cast<int64_t>(*std::max_element(sizes.begin(), sizes.end()));
    std::vector<std::string> texts(static_cast<size_t>(count_));
    if (longest == 0) return texts;
    at::Tensor mine = at::zeros({longest}, at::kByte);
    std::copy(text.begin(), text.end(), mine.data_ptr<uint8_t>());
    at::Tensor all = at::empty({longest * count_}, at::kByte);
    exchange("all_gather", [&] { link_->group()._allgather_base(all, mine)->wait(); });
    const auto* data = reinterpret_cast<const char*>(all.data_ptr<uint8_t>());
    for (size_t rank = 0; rank < texts.size(); ++rank) {
      texts[rank].assign(data + rank * static_cast<size_t>(longest),
                         static_cast<size_t>(sizes[rank]));
    }
    return texts;
  }

  void barrier() override { all_gather_values(std::vector<double>{0}); }

  // In pieces: the store takes no value above 8 MiB. Their number comes last.
  void broadcast_order(const std::string& message) override {
    constexpr size_t kPiece = size_t{1} << 20;
    const std::string key = str("order/", num_orders_++);
    const size_t count = (message.size() + kPiece - 1) / kPiece;
    guarded("broadcast_order", [&] {
      for (size_t i = 0; i < count; ++i)
        store_->set(str(key, "/", i), message.substr(i * kPiece, kPiece));
      store_->set(key, str(count));
    });
  }

  std::string receive_order() override {
    const auto message = std::make_shared<std::string>();
    wait({0}, [store = store_, key = str("order/", num_orders_++), message] {
      if (!store->check({key})) return false;
      const size_t count = std::stoul(store->get_to_str(key));
      for (size_t i = 0; i < count; ++i) *message += store->get_to_str(str(key, "/", i));
      return true;
    });
    return *message;
  }

  void barrier(const std::string& stage) override {
    const auto has_come = std::make_shared<bool>(false);
    wait(heartbeat_->others(),
         [store = store_, key = str("barrier/", stage), count = count_, has_come] {
           return store->add(key, std::exchange(*has_come, true) ? 0 : 1) >= count;
         });
  }

  // If wait() finds a loss, the heartbeat knows it too, and ends the process.
  void while_watching(const std::function<void()>& work) override {
    const auto is_done = std::make_shared<std::atomic<bool>>(false);
    std::thread watching = start_thread([this, is_done] {
      (void)heartbeat_->wait(
          heartbeat_->others(), [is_done] { return is_done->load(); }, timeout_);
    });
    const auto stop = [&] {
      *is_done = true;
      watching.join();
    };
    try {
      work();
    } catch (...) {
      stop();
      throw;
    }
    stop();
  }

  void leave_note(const std::string& name, const std::string& text) override {
    guarded("note", [&] { notes_->set(name, text); });
  }

  std::string take_note(const std::string& name, int from, milliseconds patience) override {
    const auto text = std::make_shared<std::string>();
    const auto take = [notes = notes_, name, text] {
      if (!notes->check({name})) return false;
      *text = notes->get_to_str(name);
      notes->deleteKey(name);
      return true;
    };
    if (const auto loss = heartbeat_->wait({from}, take, std::min(timeout_.load(), patience))) {
      // A process that ends because of the loss leaves its notes first.
      const auto deadline = Clock::now() + kLastNote;
      bool has_come = false;
      while (!has_come && Clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds(50));
        const std::optional<bool> answer = Heartbeat::ask(take);
        if (!answer) break;  // the store is silent too
        has_come = *answer;
      }
      if (!has_come) throw_lost(*loss);
    }
    return *text;
  }

  void mark_saving(bool is_saving) override { heartbeat_->mark_saving(is_saving); }

  void set_timeout(milliseconds timeout) override {
    timeout_ = timeout;
    link_->set_timeout(timeout);
    for (const ExtraGroup& group : extra_groups_) group.link->set_timeout(timeout);
  }

  void use_nccl(bool is_wanted, bool keeps_order) override {
    library_.is_wanted = is_wanted;
    library_.keeps_order = keeps_order;
    link_->keep_order(keeps_order);
    for (const ExtraGroup& group : extra_groups_) group.link->keep_order(keeps_order);
  }

  void give_up(int exit_code, const std::string& cause) noexcept override {
    try {
      heartbeat_->give_up({exit_code, str(name_of(rank_), ": ", cause)});
    } catch (...) {  // out of memory; the other processes find out by themselves
    }
  }

  void leave() override {
    barrier();
    heartbeat_->leave();
  }

  std::string name_of(int rank) const override { return names_[static_cast<size_t>(rank)]; }

 private:
  // Holds the connection between GPUs of an extra group.
  struct ExtraGpus {
    bool asked = false;
    std::unique_ptr<DeviceExchange> exchange;  // null: Gloo exchanges tensors of GPUs
  };
  struct ExtraGroup {
    std::unique_ptr<GlooLink> link;
    std::shared_ptr<ExtraGpus> gpus;
  };

  // Connects the GPUs once more, unless they exchange through host memory.
  void connect_extra(ExtraGpus& gpus, const at::Device& device) {
    if (device.type() != library_.device || gpus.asked || gpus_of(device) == nullptr) return;
    gpus.asked = true;
    gpus.exchange = connect_devices(library_, *this, *heartbeat_, device, link_->limit());
  }

  // Makes the first group in another thread, since Gloo may wait for a process that has ended after
  // the rendezvous. Throws ProcessLost, Error(kIo), StopRequested, and the exceptions of c10d.
  c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_first_group() {
    using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
    const milliseconds limit = timeout_;
    const auto promise = std::make_shared<std::promise<Group>>();
    std::shared_future<Group> group = promise->get_future();
    std::thread([promise, store = store_, rank = rank_, count = count_, address = address_, limit] {
      try {
        promise->set_value(connect_gloo(store, "gloo", rank, count, address, limit));
      } catch (...) {
        promise->set_exception(std::current_exception());
      }
    }).detach();
    const auto is_there = [group] { return group.wait_for(0s) == std::future_status::ready; };
    const auto is_over = [=, deadline = Clock::now() + limit] {
      return is_there() || stop_signal() != 0 || Clock::now() >= deadline;
    };
    try {
      if (const auto loss =
              heartbeat_->wait(heartbeat_->others(), is_over, std::min(limit, kSignOfLife)))
        throw_lost(*loss);
      throw_if_stopped();
      if (!is_there())
        throw Error(ErrorKind::kIo, str("not connected within ", limit.count() / 1000, " s"));
      return group.get();
    } catch (const StopRequested& stop) {
      give_up(stop.exit_code(), stop.message());
      throw;
    } catch (const std::exception& error) {
      give_up(exit_code(ErrorKind::kIo), first_line(error.what()));
      throw;
    }
  }

  void guarded(const char* what, const std::function<void()>& work) { link_->guarded(what, work); }
  void exchange(const char* name, const std::function<void()>& work) {
    link_->exchange(name, work);
  }

  void wait(const std::vector<int>& awaited, const std::function<bool()>& done) {
    if (const auto loss = heartbeat_->wait(awaited, done, timeout_)) throw_lost(*loss);
  }

  // Returns the exchange of GPUs; null if the tensor is in host memory, or must go through it.
  // Connects the GPUs when the first tensor on a GPU comes.
  DeviceExchange* gpus_of(const at::Tensor& values) { return gpus_of(values.device()); }
  DeviceExchange* gpus_of(const at::Device& device) {
    if (device.type() != library_.device) return nullptr;
    if (!std::exchange(asked_for_gpus_, true))
      gpus_ = connect_devices(library_, *this, *heartbeat_, device, link_->limit());
    return gpus_.get();
  }

  // Calls work() with the tensor itself, or with a copy in host memory that is copied back.
  template <class Work>
  void where_exchanged(const at::Tensor& values, const Work& work) {
    if (gpus_of(values) != nullptr || values.is_cpu()) {
      work(values);
      return;
    }
    const at::Tensor host = values.cpu();
    work(host);
    values.copy_(host);
  }

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store> notes_;  // a connection of their own, which threads may share
  std::atomic<milliseconds> timeout_;
  std::vector<std::string> names_;
  std::string address_;  // by which the others reach this process
  std::optional<Heartbeat> heartbeat_;
  std::optional<GlooLink> link_;
  std::vector<ExtraGroup> extra_groups_;
  NcclLibrary library_;
  bool asked_for_gpus_ = false;
  std::unique_ptr<DeviceExchange> gpus_;
  int64_t num_orders_ = 0;
};

}  // namespace

std::unique_ptr<Processes> connect_processes(const Launch& launch, milliseconds timeout,
                                             const NcclLibrary& library) {
  silence_c10d_log();
  const QuietStreams quiet;
  try {
    const Rendezvous found = rendezvous(launch, timeout);
    return std::make_unique<GlooProcesses>(launch, found, timeout, library);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kIo, str("rank ", launch.rank, " of ", launch.count,
                                    " cannot connect to the others: ", first_line(error.what())));
  }
}

}  // namespace lmtrain
