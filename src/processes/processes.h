// The processes of a data-parallel run, and the few exchanges between them. One process alone
// exchanges nothing: its implementation does nothing, and costs nothing.
//
// Every process makes the same calls in the same order, from one thread. A call returns when this
// process has its result. It throws ProcessLost when another process has ended, hangs, or cannot
// be reached: after Processes' timeout at the latest, with that process and the cause in the
// message.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace lmtrain {

// Why a process that is well must end too. `exit_code` is that of the process that ended first,
// where it had one, else 5.
class ProcessLost : public Error {
 public:
  ProcessLost(int exit_code, const std::string& message)
      : Error(ErrorKind::kIo, message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

class Processes {
 public:
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  virtual ~Processes() = default;

  int rank() const { return rank_; }
  int count() const { return count_; }
  bool is_first() const { return rank_ == 0; }
  bool is_only() const { return count_ == 1; }
  // Among the processes of this machine.
  int local_rank() const { return local_rank_; }
  int local_count() const { return local_count_; }
  // The processes of this machine that may use the same processors as this one, itself included.
  int processor_sharers() const { return processor_sharers_; }

  // `flat`, contiguous fp32, becomes its sum over all processes: the same bits in each. The order
  // of the additions is the fastest one.
  virtual void sum(const at::Tensor& flat) = 0;
  // The same with the order fixed: the ranks are the leaves of a binary tree, so neighbours are
  // added first. Requires a power of two of processes.
  virtual void sum_as_tree(const at::Tensor& flat) = 0;
  // Every process has the first one's values afterwards. Contiguous, any dtype.
  virtual void broadcast(const at::Tensor& values) = 0;
  virtual std::string broadcast(const std::string& bytes) = 0;
  // Everybody's values, rank after rank. Each process gives as many.
  virtual std::vector<double> all_gather(const std::vector<double>& values) = 0;
  virtual std::vector<std::string> gather_texts(const std::string& text) = 0;
  virtual void barrier() = 0;

  // Waiting that may take hours, while another process prepares data. It has no time limit as long
  // as the processes that are waited for give signs of life.
  //
  // The first process tells something, once for every listen() of each of the others.
  virtual void tell(const std::string& message) = 0;
  virtual std::string listen() = 0;
  // Returns when all processes have come to the stage of this name. A name serves once.
  virtual void meet(const std::string& stage) = 0;

  // How long an exchange may take.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  // Tells the others that this process ends, why, and with which exit code; nothing where another
  // process was lost before. Never throws.
  virtual void give_up(int exit_code, const std::string& cause) noexcept = 0;
  // The end of a run that went well; no exchange follows.
  virtual void leave() = 0;
  // "rank 2 (node7, process 4242)"
  virtual std::string name_of(int rank) const = 0;

 protected:
  Processes() = default;
  int rank_ = 0, count_ = 1;
  int local_rank_ = 0, local_count_ = 1;
  int processor_sharers_ = 1;
};

// One process alone.
Processes& only_process();

}  // namespace lmtrain
