#include "base/start_times.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

namespace lmtrain {

double process_age() {
  // Field 22 of the line is the start in clock ticks since the machine was started. Field 2, the
  // name, is in parentheses and may have spaces.
  std::ifstream file("/proc/self/stat");
  const std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 22; ++i) rest >> field;
  double ticks = 0;
  timespec now{};
  if (!(rest >> ticks) || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double started = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return std::max(
      0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started);
}

void StartTimes::begin() {
  is_recording_ = true;
  end_phase("program");
}

void StartTimes::end_phase(std::string_view name) {
  if (!is_recording_) return;
  const double now = age_();
  const double seconds = now - std::exchange(ended_, now);
  const auto known =
      std::ranges::find_if(phases_, [&](const auto& phase) { return phase.first == name; });
  if (known == phases_.end()) {
    phases_.emplace_back(name, seconds);
  } else {
    known->second += seconds;
  }
}

StartTimes::Phases StartTimes::finish(std::string_view name) {
  end_phase(name);
  is_recording_ = false;
  return std::exchange(phases_, {});
}

StartTimes& start_times() {
  static StartTimes times;
  return times;
}

}  // namespace lmtrain
