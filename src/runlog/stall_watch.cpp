#include "runlog/stall_watch.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "runlog/metrics.h"

namespace lmtrain {
namespace {

// Returns the time so many seconds ago: "2026-11-25T01:12:09Z".
std::string utc_time(double seconds_ago) {
  const std::chrono::seconds passed(static_cast<int64_t>(seconds_ago));
  return utc_timestamp(std::chrono::system_clock::now() - passed).substr(0, 19) + "Z";
}

}  // namespace

std::string Stall::what() const {
  return activity.subject.empty() ? activity.kind : str(activity.kind, " ", activity.subject);
}

std::string Stall::text() const {
  const std::string duration = format_duration(activity.seconds);
  if (over) return str("the run goes on: ", what(), " took ", duration, " or more");
  return str("the run makes no progress: it has been ", what(), " for ", duration, ", since ",
             utc_time(activity.seconds),
             activity.longest > 0
                 ? str(" (the longest before took ", format_duration(activity.longest), ")")
                 : "",
             "; it goes on when that ends; if it never does, stop the run and resume it");
}

std::vector<Stall> StallFinder::look(const std::vector<RunningActivity>& running) {
  std::vector<Stall> found;
  for (auto said = reported_.begin(); said != reported_.end();) {
    const auto now = std::find_if(running.begin(), running.end(), [&](const RunningActivity& one) {
      return one.number == said->first && one.seconds >= said->second.seconds;
    });
    if (now != running.end()) {
      said->second = *now;
      ++said;
    } else {
      found.push_back({said->second, /*over=*/true});
      said = reported_.erase(said);
    }
  }
  for (const RunningActivity& one : running) {
    const double limit = std::max(least_seconds_, kTimesTheLongest * one.longest);
    if (one.seconds < limit || reported_.contains(one.number)) continue;
    reported_.emplace(one.number, one);
    found.push_back({one, /*over=*/false});
  }
  return found;
}

StallWatch::StallWatch(std::optional<std::filesystem::path> events, double least_seconds)
    : events_(std::move(events)) {
  if (least_seconds == 0) return;
  try {
    thread_ = std::thread([this, least_seconds] { watch(least_seconds); });
  } catch (const std::system_error& error) {
    log_warning(str("no thread can be had to say where the run hangs, if it does: ",
                    error.code().message()));
  }
}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StallWatch::run_is_at(int64_t step, int64_t batch) {
  step_ = step;
  batch_ = batch;
}

void StallWatch::watch(double least_seconds) {
  const std::chrono::duration<double> between(std::min(10.0, least_seconds / 4));
  StallFinder finder(least_seconds);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, between, [this] { return stops_; })) {
    lock.unlock();
    for (const Stall& stall : finder.look(process_activities().running())) report(stall);
    lock.lock();
  }
  // Stalls that were reported and are over by now are reported as over; nothing else is, at the
  // end.
  for (const Stall& stall : finder.look(process_activities().running()))
    if (stall.over) report(stall);
}

void StallWatch::report(const Stall& stall) const {
  stall.over ? log_note(stall.text()) : log_warning(stall.text());
  if (!events_) return;
  TrainingState state;
  state.step = step_;
  state.batch = batch_;
  try {
    append_file(*events_,
                event_line("stall", state, stall.what(),
                           {{"seconds", stall.activity.seconds}, {"over", stall.over}}) +
                    "\n",
                /*sync=*/false);
  } catch (const Error&) {
    // The disk may be what hangs; the warning was printed.
  }
}

}  // namespace lmtrain
