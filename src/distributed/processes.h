// Processes stands for the processes of a data-parallel run and their exchanges. With one process
// alone the exchanges do nothing.
//
// Every process must make the same calls in the same order, except broadcast_order(),
// receive_order(), give_up(), mark_saving() and the calls about notes. One thread of a process
// makes all calls, except mark_saving(), the calls about notes, and the exchanges of
// extra_groups(). A call returns when this process has its result. It throws ProcessLost when
// another process has ended, hangs, or cannot be reached: after the timeout at the latest, except
// in receive_order(), barrier(name) and take_note(). The message names the lost process and the
// cause.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "distributed/ranges.h"

namespace lmtrain {

// The two halves of a sum over all processes. Every process must make the same calls in the same
// order.
class RangeExchange {
 public:
  RangeExchange(const RangeExchange&) = delete;
  RangeExchange& operator=(const RangeExchange&) = delete;
  virtual ~RangeExchange() = default;

  // Makes the elements of `flat`, a tensor as for Processes::all_reduce(), in this process's range
  // their sum over all processes; all others are without meaning afterwards. `ranges` holds the
  // range of each rank, in the order of distributed/ranges.h, the same in each process. They may
  // overlap, and need not cover `flat`. A power of two of processes adds in a fixed order: the
  // ranks are the leaves of a binary tree, so neighbours are added first. Other numbers add in a
  // ring.
  virtual void reduce_scatter(const at::Tensor& flat, const std::vector<ElementRange>& ranges) = 0;
  // Copies the range of each process to all others. The ranges are as above and do not overlap;
  // `flat` may have any dtype.
  virtual void all_gather(const at::Tensor& flat, const std::vector<ElementRange>& ranges) = 0;

 protected:
  RangeExchange() = default;
};

class Processes : public RangeExchange {
 public:
  int rank() const { return rank_; }
  int count() const { return count_; }
  bool is_first() const { return rank_ == 0; }
  bool is_only() const { return count_ == 1; }
  // The rank and the number of processes on this machine.
  int local_rank() const { return local_rank_; }
  int local_count() const { return local_count_; }
  // Returns whether this process prepares data for its machine: rank 0 and each process of local
  // rank 0 do. The other processes find the data in the cache.
  bool prepares() const { return is_first() || local_rank_ == 0; }
  // The number of processes of this machine, this one included, that may run on exactly the same
  // processors as this one.
  int processor_sharers() const { return processor_sharers_; }

  // Replaces `flat`, one-dimensional contiguous fp32 of the same size in each process, by its sum
  // over all processes: the same bits in each. The order of the additions is the fastest one.
  virtual void all_reduce(const at::Tensor& flat) = 0;
  // Returns `count` independent exchanges, one for each thread. Each has connections of its own,
  // and exchanges tensors in host memory. They live as long as this object; a later call returns
  // the same ones, and more if it asks for more. The call connects the processes: all must make it
  // together, with the same `count`.
  virtual std::vector<RangeExchange*> extra_groups(int count) = 0;
  // Copies `values` of the process `from` into `values` of the process `to`. Both have the same
  // size and dtype, on any device. The other processes call it too and may pass an undefined
  // tensor. Nothing is copied where `from` and `to` are the same.
  virtual void send_recv(const at::Tensor& values, int from, int to) = 0;
  // Overwrites `values` in every process by `values` of rank 0. They must be contiguous, and of the
  // same size and dtype everywhere; any dtype will do.
  virtual void broadcast(const at::Tensor& values) = 0;
  // Returns the bytes of rank 0; the others may pass any.
  virtual std::string broadcast(const std::string& bytes) = 0;
  // Returns the values of all ranks, in the order of ranks. All processes must pass the same number
  // of values.
  virtual std::vector<double> all_gather_values(const std::vector<double>& values) = 0;
  // Returns the text of each rank, by rank. The lengths may differ.
  virtual std::vector<std::string> all_gather_texts(const std::string& text) = 0;
  virtual void barrier() = 0;

  // receive_order() and barrier(name) may wait for hours, while another process prepares data. They
  // have no time limit as long as the processes that they wait for give signs of life: they throw
  // ProcessLost when one is silent for longer than the timeout. A signal to stop does not end the
  // wait; from then on five seconds of silence are too long.
  //
  // Rank 0 alone calls broadcast_order(), and does not wait; every other process calls
  // receive_order() once for each message and gets the messages in order. With one process alone
  // broadcast_order() does nothing, and receive_order() throws Error(kInternal).
  virtual void broadcast_order(const std::string& message) = 0;
  virtual std::string receive_order() = 0;
  // Returns when all processes have called it with this name. A name may be used once in a run.
  virtual void barrier(const std::string& stage) = 0;
  // Does work that may take hours and makes no exchange, such as the preparation of data. Another
  // thread looks after the other processes meanwhile. Where one of them has ended, or is silent for
  // longer than the timeout, that thread ends this process ten seconds later: with the cause as its
  // last message, and the exit code of ProcessLost. Throws the exceptions of the work.
  virtual void while_watching(const std::function<void()>& work) { work(); }

  // Notes are texts from one process to another that need no exchange: any thread may leave and
  // take them, whatever the processes do meanwhile. A name may be used once in a run.
  //
  // Leaves a note for whoever takes it, and does not wait.
  virtual void leave_note(const std::string& name, const std::string& text) = 0;
  // Waits for the note of this name, which the process `from` leaves, and takes it away. It waits
  // like receive_order(), but for a silent process no longer than `patience` or the timeout; where
  // some process has ended, `from` still has five seconds to leave it. With one process alone it
  // throws Error(kInternal).
  virtual std::string take_note(const std::string& name, int from,
                                std::chrono::milliseconds patience) = 0;

  // Says that this process begins, or has ended, the writing of a checkpoint. When another process
  // has ended, this one must end within ten seconds, but while it writes within ten minutes. Any
  // thread may call it.
  virtual void mark_saving(bool /*is_saving*/) {}

  // Sets how long an exchange from now on may take.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  // Says, before the first tensor on a GPU is exchanged, whether GPUs exchange by NCCL.
  virtual void use_nccl(bool /*is_wanted*/) {}
  // Tells the others that this process ends, why, and with which exit code; when another process
  // has ended before, its cause stays. Returns within seconds.
  virtual void give_up(int exit_code, const std::string& cause) noexcept = 0;
  // Every process calls this when the run went well. It waits for the others; no exchange may
  // follow.
  virtual void leave() = 0;
  // Returns a name for messages: "rank 2 (node7, process 4242)".
  virtual std::string name_of(int rank) const = 0;

 protected:
  Processes() = default;
  int rank_ = 0, count_ = 1;
  int local_rank_ = 0, local_count_ = 1;
  int processor_sharers_ = 1;
};

// Returns the Processes of a run of one process, which lives until the program ends.
Processes& only_process();

}  // namespace lmtrain
