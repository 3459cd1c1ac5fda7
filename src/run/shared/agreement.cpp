#include "run/shared/agreement.h"

#include <algorithm>

#include "base/signal.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The fields that each process sends before its values.
enum Field : size_t { kSignal, kSeconds, kElapsed, kNews, kNumFields };

}  // namespace

Agreement::Agreement(Processes& processes, Clock::time_point started)
    : processes_(processes), started_(started), step_begin_(started), exchanged_(started) {}

void Agreement::begin_step(double elapsed) {
  step_begin_ = Clock::now();
  elapsed_before_ = elapsed + carried_;
}

std::vector<double> Agreement::exchange(const std::vector<double>& values, bool news) {
  if (processes_.is_only()) {
    has_news_ = news;
    return values;
  }
  std::vector<double> mine(kNumFields);
  mine[kSignal] = stop_signal();
  mine[kSeconds] = seconds_since(started_);
  mine[kElapsed] = elapsed_before_ + seconds_since(step_begin_);
  mine[kNews] = news ? 1 : 0;
  mine.insert(mine.end(), values.begin(), values.end());
  const std::vector<double> all = processes_.all_gather(mine);
  exchanged_ = Clock::now();
  seconds_ = all[kSeconds];
  elapsed_ = all[kElapsed];
  has_news_ = false;
  std::vector<double> everybodys;
  for (size_t begin = 0; begin < all.size(); begin += mine.size()) {
    signal_ = std::max(signal_, static_cast<int>(all[begin + kSignal]));
    has_news_ = has_news_ || all[begin + kNews] != 0;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    everybodys.insert(everybodys.end(), first + kNumFields,
                      first + static_cast<std::ptrdiff_t>(mine.size()));
  }
  return everybodys;
}

double Agreement::end_step() {
  if (processes_.is_only()) return elapsed_before_ + seconds_since(step_begin_);
  carried_ = seconds_since(exchanged_);
  return elapsed_;
}

void Agreement::refresh() { exchange({}, false); }

int Agreement::signal() const { return processes_.is_only() ? stop_signal() : signal_; }

double Agreement::seconds() const {
  return processes_.is_only() ? seconds_since(started_) : seconds_;
}

}  // namespace lmtrain
