#include "base/progress_bar.h"

#include <algorithm>
#include <cmath>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/text.h"

namespace lmtrain {

ProgressBar::ProgressBar(std::string action, uint64_t total_bytes)
    : action_(std::move(action)), total_bytes_(total_bytes) {}

ProgressBar::~ProgressBar() { log_progress_done(); }

void ProgressBar::finish(std::string_view result) {
  log_note(str(action_, "  ", result, " in ", format_duration(seconds_since(started_))));
}

void ProgressBar::advance(uint64_t bytes) {
  throw_if_stopped();
  done_bytes_ += bytes;
  const Clock::time_point now = Clock::now();
  if (now - printed_ < std::chrono::milliseconds(500)) return;
  printed_ = now;
  // A log file gets a line a minute.
  const bool keep = now - kept_ >= std::chrono::minutes(1);
  if (keep) kept_ = now;
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  const double rate = static_cast<double>(done_bytes_) / elapsed;
  const uint64_t done = skipped_bytes_ + done_bytes_;
  const uint64_t total = std::max(total_bytes_, done);
  const double percent =
      100.0 * static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(total, 1));
  const double left = rate > 0 ? static_cast<double>(total - done) / rate : 0.0;
  log_progress(str(action_, ": ", format_bytes(done), " of ", format_bytes(total), " (",
                   std::floor(percent), "%), ", format_bytes(static_cast<uint64_t>(rate)), "/s, ",
                   format_duration(left), " left"),
               keep);
}

}  // namespace lmtrain
