// Exchanges losses, stop signals and elapsed time, so that all processes of a run decide the same:
// once a step, after the last micro-batch, and after an evaluation. All use the clock of rank 0.
//
// With several processes, signal(), seconds() and status() are as of the last exchange() or
// refresh(), and all processes must make these calls in the same order. One process exchanges
// nothing; its signal() and seconds() are the present ones. Throws the errors of Processes.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "distributed/processes.h"

namespace lmtrain {

// Says how evenly the work of a step was divided, and how long the processes waited for each other.
struct StepBalance {
  // The process that computed its rows most slowly, and its seconds, waiting for data included.
  int slowest_rank = 0;
  double slowest_seconds = 0;
  // The fraction of the step, from 0 to 1, spent waiting for other processes or for the gradient
  // sum. Each process measures it by its own clock, so it differs between processes.
  double communication_share = 0;
};

// Says how a step went in a process. The highest status, the last one in this list, wins on all
// ranks.
enum class StepStatus {
  kNone,
  kReplan,      // rank 0 looks whether the run ends in time; all wait for the length it finds
  kLimits,      // a process lowered its micro-batch limits; all exchange their limits
  kSpoiledSum,  // memory ran out after the gradient sum began; all compute the step again
  kUnreadRows,  // a process could not read its rows; the run ends
};

class StepConsensus {
 public:
  // This process began the run at `started`.
  StepConsensus(Processes& processes, std::chrono::steady_clock::time_point started);

  // Begins a step. The run had trained `elapsed` seconds before it.
  void begin_step(double elapsed);
  // Returns the values of all processes in order of rank. Each process gives the same number of
  // values, and its own `status`.
  std::vector<double> exchange(const std::vector<double>& values,
                               StepStatus status = StepStatus::kNone);
  // Returns the highest status of the last exchange.
  StepStatus status() const { return status_; }
  // Call it when the gradient is summed. The time since begin_step(), less the mean time in which
  // the processes computed, counts as waiting.
  void end_communication();
  // Calls `work`, an exchange after end_communication(), and counts its time as waiting.
  void communicate(const std::function<void()>& work);
  // Ends a step. Returns the seconds that the run has trained, this step included. With several
  // processes the time after exchange() is added to the next step.
  double end_step();
  // Returns the balance of the step that has ended; nothing with one process. The next exchange()
  // or refresh() resets it.
  std::optional<StepBalance> balance() const { return balance_; }
  // Updates signal() and seconds() outside a step, by an exchange.
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
