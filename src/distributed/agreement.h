// Exchanges the facts that the processes of a run have to know alike, so that each decides the
// same: losses, a signal to stop, how much time has passed. They are exchanged once a step, after
// the last micro-batch, and after an evaluation. The first process's clock is the clock of all.
//
// One process exchanges nothing: its signal() and seconds() are those of the moment of the call.
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
  // These are the process that took longest for its rows of the step, data included, and its
  // seconds.
  int slowest_rank = 0;
  double slowest_seconds = 0;
  // This is the part of the step, between 0 and 1, in which a process waited for the others or for
  // the sum of the gradients: the mean over all processes.
  double communication_share = 0;
};

// Something that a process tells the others in a step, besides its values. Of the news of several
// processes the last in this list is what all are told.
enum class News {
  kNone,
  kLimits,      // it has lowered its micro-batches, and all exchange theirs
  kSpoiledSum,  // it did so when the sum had begun: all do that too, and compute the step again
  kUnreadRows,  // it could not read its rows, and the run ends
};

class Agreement {
 public:
  // `started` is when this process began with the run.
  Agreement(Processes& processes, std::chrono::steady_clock::time_point started);

  // Begins a step; the run has trained `elapsed` seconds before it.
  void begin_step(double elapsed);
  // Returns the values of all processes, rank after rank; each process gives equally many. `news`
  // is what this process tells the others.
  std::vector<double> exchange(const std::vector<double>& values, News news = News::kNone);
  // Returns what the processes were told in the last exchange.
  News news() const { return news_; }
  // Notes that the gradient is summed. The time since begin_step(), less the mean time that the
  // processes computed, counts as waiting.
  void end_communication();
  // Does `work`, an exchange after end_communication(), and adds its time to the waiting.
  void communicate(const std::function<void()>& work);
  // Ends a step and returns the seconds that the run has trained with it. With several processes
  // the time from the exchange on counts towards the next step.
  double end_step();
  // Returns the balance of the step that has ended; nothing where there is one process. It holds
  // until the next exchange() or refresh(). Its communication_share is measured by this process's
  // clock, so it differs between the processes.
  std::optional<StepBalance> balance() const { return balance_; }
  // Brings signal() and seconds() up to date outside a step.
  void refresh();

  // Returns the number of the signal that has asked some process to stop, or 0.
  int signal() const;
  // Returns the seconds since the run began in this process; with several, in the first.
  double seconds() const;

 private:
  void note_computing(int rank, double seconds);

  Processes& processes_;
  std::chrono::steady_clock::time_point started_, step_begin_, exchange_begin_;
  double elapsed_before_ = 0, carried_ = 0;
  // The last exchange has set these.
  int signal_ = 0;
  double seconds_ = 0, elapsed_ = 0;
  News news_ = News::kNone;
  // Since the step began: the mean of the processes until the exchange, and until the gradients
  // were summed.
  double mean_seconds_ = 0, communicated_seconds_ = 0;
  std::optional<StepBalance> balance_;
};

}  // namespace lmtrain
