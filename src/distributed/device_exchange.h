// Exchanges tensors in the memory of GPUs between several processes by NCCL. Each process has a GPU
// of its own, and uses the current stream of that GPU.
//
// Every process makes the same calls in the same order, from one thread, outside of captures. A
// call returns when the work on the GPU is done. It throws std::runtime_error with the message of
// NCCL or CUDA, or when another process is lost, or when the time is over. The connection of this
// process is ended then, and every further call throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>

#include "distributed/heartbeat.h"
#include "distributed/nccl_library.h"
#include "distributed/processes.h"

namespace lmtrain {

class DeviceExchange {
 public:
  // Owns the communicator. `rank` is the rank of this process, `count` the number of processes in
  // the run.
  DeviceExchange(const nccl::Calls& calls, nccl::Communicator* communicator, Heartbeat& heartbeat,
                 int rank, int count);
  // Leaves a connection that works to the end of the process, and ends any other one.
  ~DeviceExchange();
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  // Tensors are contiguous, on the device of the connection. `limit`: how long a call may take.
  //
  // Does Processes::all_reduce().
  void sum(const at::Tensor& flat, std::chrono::milliseconds limit);
  // Does Processes::broadcast().
  void broadcast(const at::Tensor& values, std::chrono::milliseconds limit);
  // Sends `give` to the rank `to` and receives `take` from the rank `from`. Either may be empty.
  void swap(int to, const at::Tensor& give, int from, const at::Tensor& take,
            std::chrono::milliseconds limit);
  // Waits until the connection is made, `limit` at most, and throws like an exchange. Call it
  // before the first exchange.
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
  std::vector<int> others_;
};

// Connects the GPUs of all processes; each process passes its own `device`. If one process cannot
// have NCCL, all get null: the library is missing or turned off, versions differ, two processes
// share a GPU, or NCCL refuses. Rank 0 then logs one warning that names the process and the cause,
// and tensors must go through host memory. Throws the errors of
// `processes`.
std::unique_ptr<DeviceExchange> connect_devices(const NcclLibrary& library, Processes& processes,
                                                Heartbeat& heartbeat, const at::Device& device,
                                                std::chrono::milliseconds limit);

}  // namespace lmtrain
