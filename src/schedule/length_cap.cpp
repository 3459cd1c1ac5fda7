// Caps as a list of steps, see length_cap.h.
#include "schedule/length_cap.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

// Ascending: max_length halved as often as it stays whole and at least min_length.
std::vector<int64_t> possible_caps(int64_t min_length, int64_t max_length) {
  std::vector<int64_t> caps = {max_length};
  while (caps.back() % 2 == 0 && caps.back() / 2 >= min_length) caps.push_back(caps.back() / 2);
  std::reverse(caps.begin(), caps.end());
  return caps;
}

}  // namespace

LengthCap::LengthCap(const LengthScheduleConfig& schedule, int64_t min_length, int64_t max_length,
                     const RunClock& run) {
  const std::vector<int64_t> caps = possible_caps(min_length, max_length);
  const auto add_curve = [&](double degree) {
    const double duration = run.resolve(schedule.duration);
    add(0, caps.front());
    for (size_t i = 1; i < caps.size(); ++i) {
      // The curve solved for the batch at which it reaches this cap.
      const double rise = static_cast<double>(caps[i] - min_length);
      const double height = static_cast<double>(max_length - min_length);
      add(duration * std::pow(rise / height, degree), caps[i]);
    }
  };
  const auto add_given = [&] {
    double begin = 0;
    for (size_t i = 0; i < schedule.lengths.size(); ++i) {
      const auto above = std::upper_bound(caps.begin(), caps.end(), schedule.lengths[i]);
      add(begin, above == caps.begin() ? caps.front() : *std::prev(above));
      const double end = run.resolve(schedule.boundaries[i]);
      if (end <= begin) {
        throw Error(
            ErrorKind::kConfig,
            str("sequence.schedule.boundaries: boundary ", i + 1, " falls on batch ", end,
                " of this run, which is not after ", begin, "; allowed: above 0, increasing"));
      }
      begin = end;
    }
    add(begin, max_length);
  };
  switch (schedule.type) {
    case LengthScheduleType::kLinear:
      add_curve(1);
      break;
    case LengthScheduleType::kRoot:
      add_curve(schedule.root_degree);
      break;
    case LengthScheduleType::kStep:
      add_given();
      break;
    case LengthScheduleType::kConstant:
    case LengthScheduleType::kNatural:
    case LengthScheduleType::kGrowLinear:
    case LengthScheduleType::kGrowP2:
      add(0, max_length);
      break;
  }
}

int64_t LengthCap::at(int64_t batch) const {
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), batch,
                       [](int64_t at, const Step& step) { return at < step.first_batch; });
  return std::prev(after)->length;
}

void LengthCap::add(double first_batch, int64_t length) {
  // Quotients of decimals may lie a hair above the batch they mean.
  const double whole = std::ceil(first_batch - 1e-9 * std::max(1.0, first_batch));
  const auto first = static_cast<int64_t>(std::clamp(whole, 0.0, 0x1p62));
  // A step that no batch falls into gives way to the next.
  if (!steps_.empty() && steps_.back().first_batch == first) steps_.pop_back();
  if (!steps_.empty() && steps_.back().length == length) return;
  steps_.push_back({first, length});
}

}  // namespace lmtrain
