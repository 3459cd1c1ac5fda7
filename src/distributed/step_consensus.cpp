#include "distributed/step_consensus.h"

#include <algorithm>

#include "base/elapsed.h"
#include "base/stop.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;

// The fields that each process sends before its values.
enum Field : size_t { kSignal, kSeconds, kElapsed, kComputing, kStatus, kNumFields };

}  // namespace

StepConsensus::StepConsensus(Processes& processes, Clock::time_point started)
    : processes_(processes), started_(started), step_begin_(started), exchange_begin_(started) {}

void StepConsensus::begin_step(double elapsed) {
  step_begin_ = Clock::now();
  elapsed_before_ = elapsed + carried_;
}

std::vector<double> StepConsensus::exchange(const std::vector<double>& values, StepStatus status) {
  if (processes_.is_only()) {
    status_ = status;
    return values;
  }
  std::vector<double> mine(kNumFields);
  mine[kSignal] = stop_signal();
  mine[kSeconds] = seconds_since(started_);
  exchange_begin_ = Clock::now();
  mine[kComputing] = std::chrono::duration<double>(exchange_begin_ - step_begin_).count();
  mine[kElapsed] = elapsed_before_ + mine[kComputing];
  mine[kStatus] = static_cast<int>(status);
  mine.insert(mine.end(), values.begin(), values.end());
  const std::vector<double> all = processes_.all_gather_values(mine);
  seconds_ = all[kSeconds];
  elapsed_ = all[kElapsed];
  status_ = StepStatus::kNone;
  balance_.emplace();
  mean_seconds_ = 0;
  std::vector<double> everybodys;
  for (size_t begin = 0; begin < all.size(); begin += mine.size()) {
    note_computing(static_cast<int>(begin / mine.size()), all[begin + kComputing]);
    signal_ = std::max(signal_, static_cast<int>(all[begin + kSignal]));
    status_ = std::max(status_, static_cast<StepStatus>(all[begin + kStatus]));
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    everybodys.insert(everybodys.end(), first + kNumFields,
                      first + static_cast<std::ptrdiff_t>(mine.size()));
  }
  return everybodys;
}

void StepConsensus::note_computing(int rank, double seconds) {
  mean_seconds_ += seconds / processes_.count();
  if (seconds <= balance_->slowest_seconds) return;
  balance_->slowest_rank = rank;
  balance_->slowest_seconds = seconds;
}

void StepConsensus::end_communication() { communicated_seconds_ = seconds_since(step_begin_); }

void StepConsensus::communicate(const std::function<void()>& work) {
  const Clock::time_point begin = Clock::now();
  work();
  communicated_seconds_ += seconds_since(begin);
}

double StepConsensus::end_step() {
  const double seconds = seconds_since(step_begin_);
  if (processes_.is_only()) return elapsed_before_ + seconds;
  carried_ = seconds_since(exchange_begin_);
  const double waited = communicated_seconds_ - mean_seconds_;
  balance_->communication_share = std::clamp(waited / seconds, 0.0, 1.0);
  return elapsed_;
}

void StepConsensus::refresh() { exchange({}); }

int StepConsensus::signal() const { return processes_.is_only() ? stop_signal() : signal_; }

double StepConsensus::seconds() const {
  return processes_.is_only() ? seconds_since(started_) : seconds_;
}

}  // namespace lmtrain
