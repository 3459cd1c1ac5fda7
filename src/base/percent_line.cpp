#include "base/percent_line.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"

namespace lmtrain {

PercentLine::PercentLine(std::string action, int64_t total)
    : action_(std::move(action)), total_(std::max<int64_t>(1, total)) {}

PercentLine::~PercentLine() { log_progress_done(); }

void PercentLine::show(int64_t done) {
  const Clock::time_point now = Clock::now();
  if (now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  log_progress(str(action_, "  ", 100 * done / total_, " %"), /*keep=*/false);
}

}  // namespace lmtrain
