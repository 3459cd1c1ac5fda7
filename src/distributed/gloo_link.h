// A GlooLink is one process group of c10d's Gloo backend, over all processes of a run. One thread
// at a time may exchange over it, so each thread that exchanges has a GlooLink of its own.
//
// An exchange that fails throws ProcessLost. Its message names the lost process, which the
// Heartbeat finds.
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

class DeviceExchange;

class GlooLink final : public RangeExchange {
 public:
  // Returns the exchange between GPUs for such tensors, such as NCCL's; null if Gloo must exchange
  // them: a tensor on a GPU goes through host memory.
  using GpusOf = std::function<DeviceExchange*(const at::Tensor& values)>;

  // `timeout` is the timeout of the run (distributed/processes.h). `gpus_of` must not be
  // empty. If `keeps_order`, reduce_scatter() adds tensors of GPUs in the order of tensors in host
  // memory. `heartbeat` must outlive this object.
  GlooLink(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, Heartbeat& heartbeat,
           std::chrono::milliseconds timeout, GpusOf gpus_of, bool keeps_order);
  ~GlooLink() override;

  c10d::ProcessGroupGloo& group() { return *group_; }
  void set_timeout(std::chrono::milliseconds timeout);
  // Returns how long an exchange may take: `timeout` less the time to find out which process is
  // lost.
  static std::chrono::milliseconds limit_of(std::chrono::milliseconds timeout);
  std::chrono::milliseconds limit() const { return limit_of(timeout_); }

  // Calls `work`, an exchange, and counts it (Heartbeat::count_exchange). Any std::exception of
  // `work` becomes ProcessLost; `what` names the exchange in its message.
  void exchange(const char* what, const std::function<void()>& work);
  // Does the same, but does not count `work` as an exchange.
  void guarded(const char* what, const std::function<void()>& work);
  // Sets whether reduce_scatter() adds tensors of GPUs in the order of tensors in host memory.
  void keep_order(bool keeps) { keeps_order_ = keeps; }
  // Sends `give` to the rank `to` while it receives `take` from the rank `from`; either may be
  // empty. Call it in the `work` of exchange(), which handles its errors.
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
  GpusOf gpus_of_;
  bool keeps_order_;
  int rank_, count_;
};

// Connects the `count` processes that call it with the same `name`. The other processes reach this
// one by `address`; empty: not known. If a process does not come, throws an exception of c10d after
// some multiples of `timeout`.
c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_gloo(
    const c10::intrusive_ptr<c10d::Store>& store, const std::string& name, int rank, int count,
    const std::string& address, std::chrono::milliseconds timeout);

// Throws ProcessLost with the exit code and the cause of `loss`.
[[noreturn]] void throw_lost(const Loss& loss);

}  // namespace lmtrain
