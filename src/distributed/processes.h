// Processes stands for the processes of a data-parallel run and their exchanges. With one process
// alone the exchanges do nothing.
//
// Every process must make the same calls in the same order, except broadcast_order(),
// receive_order(), give_up(), mark_saving() and the calls about notes. One thread of a process
// makes all calls, except mark_saving(), the calls about notes, and the exchanges of
// extra_groups(). A call returns when this process has its result. It throws ProcessLost if another
// process has ended, hangs, or cannot be reached: within the timeout, except in receive_order(),
// barrier(stage) and take_note(). The message names the lost process and the cause.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "distributed/ranges.h"

namespace lmtrain {

// A RangeExchange makes the two halves of a sum over all processes. Every process must make the
// same calls in the same order, from one thread at a time.
class RangeExchange {
 public:
  RangeExchange(const RangeExchange&) = delete;
  RangeExchange& operator=(const RangeExchange&) = delete;
  virtual ~RangeExchange() = default;

  // Replaces this process's range of `flat` by its sum over all processes; other elements have no
  // meaning afterwards. `flat` is as in Processes::all_reduce(). `ranges[rank]` is the range of
  // each rank, in the order of distributed/ranges.h, the same in each process. Ranges do not
  // overlap, and need not cover `flat`. If the number of processes is a power of two, the order of
  // the additions is fixed: a binary tree over the ranks, neighbours first. Otherwise they add in a
  // ring. Processes::use_nccl() can choose another order for tensors on GPUs.
  virtual void reduce_scatter(const at::Tensor& flat, const std::vector<ElementRange>& ranges) = 0;
  // Copies each process's range of `flat` to all other processes. `ranges` are as above; `flat` may
  // have any dtype.
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
  // The rank of this process on its machine, and the number of processes of the run there.
  int local_rank() const { return local_rank_; }
  int local_count() const { return local_count_; }
  // Returns whether this process prepares data for its machine: rank 0 and each process of local
  // rank 0 do. The other processes find the data in the cache.
  bool prepares() const { return is_first() || local_rank_ == 0; }
  // Returns how many processes of the run, this one included, may use exactly its processors.
  int processor_sharers() const { return processor_sharers_; }

  // Replaces `flat` by its sum over all processes: the same bits in each, added in the fastest
  // order. `flat` is one-dimensional, contiguous, fp32, and of the same size in each process.
  virtual void all_reduce(const at::Tensor& flat) = 0;
  // Returns `count` independent process groups, one for each thread, with connections of their own.
  // They exchange tensors in host memory and on `device`, and live as long as this object. A later
  // call returns the same groups first. The call connects the processes: all must make it together,
  // with the same `count` and type of device.
  virtual std::vector<RangeExchange*> extra_groups(int count,
                                                   const at::Device& device = at::kCPU) = 0;
  // Copies `values` of the rank `from` into `values` of the rank `to`. Both have the same shape and
  // dtype, on any device. The other processes call it too, and may pass an undefined tensor. Copies
  // nothing if `from` equals `to`.
  virtual void send_recv(const at::Tensor& values, int from, int to) = 0;
  // Overwrites `values` in every process by `values` of rank 0. They must be contiguous, and have
  // the same size and dtype everywhere; any dtype will do.
  virtual void broadcast(const at::Tensor& values) = 0;
  // Returns the `bytes` that rank 0 passes.
  virtual std::string broadcast(const std::string& bytes) = 0;
  // Returns the values of all ranks, in the order of ranks. All processes must pass the same number
  // of values.
  virtual std::vector<double> all_gather_values(const std::vector<double>& values) = 0;
  // Returns the text of each rank, by rank. The lengths may differ.
  virtual std::vector<std::string> all_gather_texts(const std::string& text) = 0;
  // Returns when all processes have called it.
  virtual void barrier() = 0;

  // receive_order() and barrier(stage) may wait for hours, while another process prepares data.
  // They throw ProcessLost only if an awaited process ends, or is silent for longer than the
  // timeout. A signal to stop does not end the wait; from then on the limit is five seconds of
  // silence.
  //
  // Rank 0 alone calls broadcast_order(), which does not wait. Every other process calls
  // receive_order() once for each message, and gets the messages in order. With one process
  // broadcast_order() does nothing, and receive_order() throws Error(kInternal).
  virtual void broadcast_order(const std::string& message) = 0;
  virtual std::string receive_order() = 0;
  // Returns when all processes have called it with this name. Use each name once in a run.
  virtual void barrier(const std::string& stage) = 0;
  // Calls `work`, which may take hours and makes no exchange, such as the preparation of data. If
  // another process meanwhile ends, or is silent for longer than the timeout, this process is ended
  // ten seconds later: with the cause as its last message, and the exit code of ProcessLost. Throws
  // the exceptions of `work`.
  virtual void while_watching(const std::function<void()>& work) { work(); }

  // Notes are texts from one process to another. They need no exchange: any thread may leave and
  // take them at any time. Use each name once in a run.
  //
  // Leaves a note under this name, and does not wait.
  virtual void leave_note(const std::string& name, const std::string& text) = 0;
  // Waits for the note that the rank `from` leaves under this name, removes it, and returns its
  // text. Waits like receive_order(), but bears silence only for `patience`, if that is shorter
  // than the timeout. After a process has ended, `from` has five more seconds to leave the note.
  // With one process it throws Error(kInternal).
  virtual std::string take_note(const std::string& name, int from,
                                std::chrono::milliseconds patience) = 0;

  // Call it with true before this process writes a checkpoint, and with false after. If another
  // process ends, this one must end within ten seconds, or within ten minutes while it writes.
  virtual void mark_saving(bool /*is_saving*/) {}

  // Sets the timeout: how long an exchange from now on may take, and a process may be silent.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  // Sets whether GPUs exchange by NCCL, and whether reduce_scatter() then keeps its order of
  // additions, or takes the order of NCCL, which is faster. Call it before the first exchange of a
  // tensor on a GPU.
  virtual void use_nccl(bool /*is_wanted*/, bool /*keeps_order*/) {}
  // Tells the other processes that this one ends, why, and with which exit code. If another process
  // has ended before, its cause stays. Returns within seconds.
  virtual void give_up(int exit_code, const std::string& cause) noexcept = 0;
  // Every process calls this at the end of a run that went well. Waits for all; no exchange may
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
