// Exchanges losses, stop signals and elapsed time, so that all processes of a run decide the same.
// They are exchanged once a step, after the last micro-batch, and after an evaluation. All
// processes use the clock of rank 0.
//
// A run of one process exchanges nothing; signal() and seconds() then read the present values.
// Several processes must make the same calls of exchange() and refresh(), in the same order.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "distributed/processes.h"

namespace lmtrain {

// A StepBalance says how evenly the work of a step was divided, and how long the processes waited
// for each other.
struct StepBalance {
  // These two name the process that computed its rows most slowly, and its seconds. Waiting for
  // data is included.
  int slowest_rank = 0;
  double slowest_seconds = 0;
  // This is the fraction of the step, from 0 to 1, spent waiting for other processes or for the
  // gradient sum. It is the mean over all processes.
  double communication_share = 0;
};

// StepStatus says how a step went in a process. The highest status of all processes, the last one
// in this list, wins in all of them.
enum class StepStatus {
  kNone,
  kLimits,      // a process lowered its micro-batch limits; all exchange their limits
  kSpoiledSum,  // memory ran out after the gradient sum began; all compute the step again
  kUnreadRows,  // a process could not read its rows; the run ends
};

class StepConsensus {
 public:
  // `started` is the time at which this process began the run.
  StepConsensus(Processes& processes, std::chrono::steady_clock::time_point started);

  // Begins a step. The run had trained `elapsed` seconds before it.
  void begin_step(double elapsed);
  // Returns the values of all processes in order of rank. Each process gives the same number of
  // values. `status` is this process's.
  std::vector<double> exchange(const std::vector<double>& values,
                               StepStatus status = StepStatus::kNone);
  // Returns the highest status of the last exchange.
  StepStatus status() const { return status_; }
  // Notes that the gradient is summed. Waiting is the time since begin_step(), less the mean time
  // in which the processes computed.
  void end_communication();
  // Calls `work`, an exchange after end_communication(), and counts its time as waiting.
  void communicate(const std::function<void()>& work);
  // Ends a step. Returns the seconds that the run has trained, this step included. With several
  // processes the time after exchange() counts towards the next step.
  double end_step();
  // Returns the balance of the step that has ended; nothing with one process. The next exchange()
  // or refresh() resets it. Each process measures communication_share by its own clock, so this
  // value differs between processes.
  std::optional<StepBalance> balance() const { return balance_; }
  // Updates signal() and seconds() outside a step.
  void refresh();

  // Returns the number of a signal that asks some process to stop, or 0.
  int signal() const;
  // Returns the seconds since rank 0 began the run.
  double seconds() const;

 private:
  void note_computing(int rank, double seconds);

  Processes& processes_;
  std::chrono::steady_clock::time_point started_, step_begin_, exchange_begin_;
  double elapsed_before_ = 0, carried_ = 0;
  // The last exchange sets these.
  int signal_ = 0;
  double seconds_ = 0, elapsed_ = 0;
  StepStatus status_ = StepStatus::kNone;
  // Both count from the beginning of the step. The first is the mean over processes, to the
  // exchange. The second is this process's, to the end of the gradient sum.
  double mean_seconds_ = 0, communicated_seconds_ = 0;
  std::optional<StepBalance> balance_;
};

}  // namespace lmtrain
