// Exchanges tensors in the memory of GPUs between several processes by NCCL. Each process has a GPU
// of its own, and uses the current stream of that GPU.
//
// Every process makes the same calls in the same order, from one thread at a time, outside of
// captures. A call returns when the work on the GPU is done. It throws std::runtime_error in three
// cases: NCCL or CUDA fails, another process is lost, or the time is over. Every later call then
// throws too.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <vector>

#include "distributed/heartbeat.h"
#include "distributed/nccl_library.h"
#include "distributed/processes.h"

namespace lmtrain {

class DeviceExchange {
 public:
  // Takes over the communicator, which may be null. `calls` and `heartbeat` must outlive this
  // object.
  DeviceExchange(const nccl::Calls& calls, nccl::Communicator* communicator, Heartbeat& heartbeat);
  // Leaves a working connection open until the program ends. Aborts any other, for two seconds at
  // most.
  ~DeviceExchange();
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  // All tensors below are contiguous, on the GPU of the connection. A call may take `limit`.
  //
  // Does Processes::all_reduce(). Throws Error(kInternal) unless `flat` is fp32.
  void all_reduce(const at::Tensor& flat, std::chrono::milliseconds limit);
  // Does Processes::broadcast().
  void broadcast(const at::Tensor& values, std::chrono::milliseconds limit);
  // Does RangeExchange::all_gather().
  void all_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges,
                  std::chrono::milliseconds limit);
  // Replaces this rank's range of the fp32 tensor `flat` by its sum over all processes, in an order
  // that NCCL chooses; other elements have no meaning afterwards. `ranges` do not overlap. Throws
  // Error(kInternal) unless `flat` is fp32.
  void reduce_scatter(const at::Tensor& flat, const std::vector<ElementRange>& ranges,
                      std::chrono::milliseconds limit);
  // Sends `give` to the rank `to` and receives `take` from the rank `from`. Either may be empty.
  void swap(int to, const at::Tensor& give, int from, const at::Tensor& take,
            std::chrono::milliseconds limit);
  // Waits at most `limit` until the connection is made. Call it before the first exchange.
  void finish_connecting(std::chrono::milliseconds limit);

 private:
  struct Link;
  template <class Queue>
  void exchange(const at::Tensor& values, std::chrono::milliseconds limit, const Queue& queue);
  void wait(std::chrono::milliseconds limit);
  [[noreturn]] void fail(const std::string& why);
  void end();

  std::shared_ptr<Link> link_;  // shared with threads of the heartbeat, which may outlive a wait
  Heartbeat& heartbeat_;
};

// Connects the GPUs of all processes by NCCL; each process passes its own `device`. Returns null in
// all processes if one of them cannot: the library is missing or turned off, versions differ, two
// processes share a GPU, or NCCL refuses. Rank 0 then logs a warning that names the process and the
// cause. Throws the errors of `processes`.
std::unique_ptr<DeviceExchange> connect_devices(const NcclLibrary& library, Processes& processes,
                                                Heartbeat& heartbeat, const at::Device& device,
                                                std::chrono::milliseconds limit);

}  // namespace lmtrain
