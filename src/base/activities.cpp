#include "base/activities.h"

#include <algorithm>

namespace lmtrain {

uint64_t Activities::begin(std::string_view kind, std::string_view subject) {
  const std::lock_guard lock(mutex_);
  running_.emplace(
      next_, Entry{std::string(kind), std::string(subject), std::this_thread::get_id(), now_()});
  return next_++;
}

void Activities::get_further(uint64_t number) {
  const std::lock_guard lock(mutex_);
  Entry& entry = running_.at(number);
  count(entry);
  entry.since = now_();
}

void Activities::end(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto ended = running_.find(number);
  count(ended->second);
  running_.erase(ended);
}

void Activities::count(const Entry& entry) {
  double& longest = longest_[entry.kind];
  longest = std::max(longest, std::chrono::duration<double>(now_() - entry.since).count());
}

std::vector<RunningActivity> Activities::running() const {
  const std::lock_guard lock(mutex_);
  std::map<std::thread::id, uint64_t> innermost;
  for (const auto& [number, entry] : running_) innermost[entry.thread] = number;
  std::vector<RunningActivity> all;
  for (const auto& [number, entry] : running_) {
    if (innermost.at(entry.thread) != number) continue;
    const auto longest = longest_.find(entry.kind);
    all.push_back({number, entry.kind, entry.subject,
                   std::chrono::duration<double>(now_() - entry.since).count(),
                   longest == longest_.end() ? 0 : longest->second});
  }
  return all;
}

Activities& process_activities() {
  static auto* const all = new Activities;  // outlives threads that end with the process
  return *all;
}

}  // namespace lmtrain
