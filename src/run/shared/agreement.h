// The facts that the processes of a run have to know alike, so that each decides the same: losses,
// a signal to stop, how much time has passed. It is exchanged once a step, after the last
// micro-batch, and after an evaluation. The first process's clock is the clock of all.
//
// One process exchanges nothing: its signal and its clock are those of the moment.
#pragma once

#include <chrono>
#include <vector>

#include "processes/processes.h"

namespace lmtrain {

class Agreement {
 public:
  // `started`: when this process began with the run.
  Agreement(Processes& processes, std::chrono::steady_clock::time_point started);

  // A step begins; `elapsed` seconds of training are behind.
  void begin_step(double elapsed);
  // Gives everybody's values, rank after rank; each gives as many. `news` is whether this process
  // has something to tell that takes an exchange of its own.
  std::vector<double> exchange(const std::vector<double>& values, bool news);
  // Whether some process had news in the last exchange.
  bool has_news() const { return has_news_; }
  // The seconds of training with this step. Of several processes, the time from the exchange on is
  // counted to the next step.
  double end_step();
  // Outside a step: brings signal() and seconds() up to date.
  void refresh();

  // The signal that has asked some process to stop, or 0.
  int signal() const;
  // Since the run began in this process.
  double seconds() const;

 private:
  Processes& processes_;
  std::chrono::steady_clock::time_point started_, step_begin_, exchanged_;
  double elapsed_before_ = 0, carried_ = 0;
  // As of the last exchange.
  int signal_ = 0;
  double seconds_ = 0, elapsed_ = 0;
  bool has_news_ = false;
};

}  // namespace lmtrain
