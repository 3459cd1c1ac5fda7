// A GlooLink is one set of connections between the processes of a run, by c10d's Gloo backend. One
// thread at a time may exchange over it; a process has one for each of its threads that exchange.
//
// An exchange that fails throws ProcessLost, which names the process that is lost (Heartbeat).
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "distributed/heartbeat.h"
#include "distributed/processes.h"
#include "distributed/tree_sum.h"

namespace c10d {
class ProcessGroupGloo;
class Store;
}  // namespace c10d

namespace lmtrain {

class GlooLink final : public RangeExchange {
 public:
  // Sends `give` to the rank `to` while it receives `take` from the rank `from`. Returns false
  // where it does not take such tensors.
  using OtherWay = std::function<bool(int to, const at::Tensor& give, int from,
                                      const at::Tensor& take, std::chrono::milliseconds limit)>;

  // `timeout` is the timeout of the run (distributed/processes.h). `other_way`, if given, is asked
  // first: it exchanges the tensors for which it returns true.
  GlooLink(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, Heartbeat& heartbeat,
           std::chrono::milliseconds timeout, OtherWay other_way = {});
  ~GlooLink() override;

  c10d::ProcessGroupGloo& group() { return *group_; }
  void set_timeout(std::chrono::milliseconds timeout);
  // Returns the part of the timeout that an exchange may take; the rest is for finding out who is
  // lost.
  static std::chrono::milliseconds limit_of(std::chrono::milliseconds timeout);
  std::chrono::milliseconds limit() const { return limit_of(timeout_); }

  // Does the work of an exchange named `what`, which counts as one (Heartbeat::count_exchange).
  void exchange(const char* what, const std::function<void()>& work);
  // Does work that may fail where a process is lost, and is no exchange.
  void guarded(const char* what, const std::function<void()>& work);
  // Sends `give` to the rank `to` while it receives `take` from the rank `from`; either may be
  // empty. It is a part of an exchange.
  void swap(int to, const at::Tensor& give, int from, const at::Tensor& take);

  void reduce_scatter(const at::Tensor& flat, const std::vector<ElementRange>& ranges) override;
  void all_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges) override;

 private:
  bool is_tree() const;
  Exchange swapping(const char* what);
  PassOn passing_on(const char* what);

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  Heartbeat& heartbeat_;
  std::atomic<std::chrono::milliseconds> timeout_;
  OtherWay other_way_;
  int rank_, count_;
};

// Returns the network interface that Gloo's variable GLOO_SOCKET_IFNAME chooses, which goes before
// the address by which the others reach this process; empty where the variable is not set, and
// where `address` is a loopback address or not known.
std::string chosen_interface(const std::string& address);
// Connects the processes that call it with this name. `address` is the one by which the others
// reach this process; empty: not known. Throws the exceptions of c10d, some multiple of `timeout`
// after a process has not come.
c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_gloo(
    const c10::intrusive_ptr<c10d::Store>& store, const std::string& name, int rank, int count,
    const std::string& address, std::chrono::milliseconds timeout);

// Throws the ProcessLost that a Loss stands for.
[[noreturn]] void throw_lost(const Loss& loss);

}  // namespace lmtrain
