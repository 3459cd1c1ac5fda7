#include "runlog/time_left.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lmtrain {

void MeanTime::add(double seconds) {
  sum_ += seconds;
  ++count_;
  if (count_ <= 2) {
    mean_ = steady_ = seconds;  // the second replaces the first
    return;
  }
  steady_ += (seconds - steady_) * 2 / static_cast<double>(count_);
  mean_ += (seconds - mean_) / static_cast<double>(std::min(count_ - 1, kMemory));
}

TimeLeft::TimeLeft(std::function<double(int64_t length)> step_flops, double evaluation_flops)
    : step_flops_(std::move(step_flops)), evaluation_flops_(evaluation_flops) {}

void TimeLeft::add_batch(int64_t length, double seconds) { batches_[length].add(seconds); }

double TimeLeft::batch_seconds(int64_t length, bool steady) const {
  if (batches_.empty()) return 0;
  const auto distance = [&](int64_t other) {
    return std::abs(std::log(static_cast<double>(other) / static_cast<double>(length)));
  };
  const auto nearest = std::min_element(
      batches_.begin(), batches_.end(),
      [&](const auto& a, const auto& b) { return distance(a.first) < distance(b.first); });
  const MeanTime& time = nearest->second;
  return (steady ? time.steady_seconds() : time.seconds()) * step_flops_(length) /
         step_flops_(nearest->first);
}

double TimeLeft::evaluation_seconds() const {
  if (evaluation_.known() || batches_.empty()) return evaluation_.seconds();
  const auto& [length, time] = *batches_.rbegin();
  return time.seconds() * evaluation_flops_ / step_flops_(length);
}

double TimeLeft::seconds(const Ahead& ahead) const {
  return ahead.training + ahead.evaluations * evaluation_seconds() + ahead.saves * save_.seconds() +
         writing_;
}

double TimeLeft::training_seconds() const {
  double sum = 0;
  for (const auto& [length, time] : batches_) sum += time.sum();
  return sum;
}

}  // namespace lmtrain
