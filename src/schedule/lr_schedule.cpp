// The curves of docs/schedules.md. Names of shapes are those of the config.
#include "schedule/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace lmtrain {
namespace {

[[noreturn]] void unknown_shape(const char* key, const std::string& value) {
  throw Error(ErrorKind::kConfig, std::string(key) + ": no such shape \"" + value + "\"");
}

double half_cosine(double p) { return (1 + std::cos(std::numbers::pi * p)) / 2; }

// Rises from 0 at x = 0 to 1 at x = 1.
double warmup_shape(const std::string& shape, double x) {
  if (shape == "linear") return x;
  if (shape == "sqrt") return std::sqrt(x);
  if (shape == "cosine") return 1 - half_cosine(x);
  unknown_shape("lr_schedule.warmup_shape", shape);
}

// Falls from 1 at p = 0 to 0 at p = 1.
double decay_shape(const std::string& shape, double p) {
  if (shape == "linear") return 1 - p;
  if (shape == "sqrt") return std::sqrt(1 - p);
  if (shape == "one_minus_sqrt") return 1 - std::sqrt(p);
  if (shape == "cosine") return half_cosine(p);
  unknown_shape("lr_schedule.decay_shape", shape);
}

}  // namespace

LrSchedule::LrSchedule(const LrScheduleConfig& config, double peak, const RunClock& run)
    : shape_(config.type == "wsd" ? config.decay_shape : config.type),
      warmup_shape_(config.warmup_shape),
      peak_(peak),
      floor_(config.min_ratio * peak),
      warmup_start_(config.warmup_start),
      total_(run.total),
      warmup_(run.resolve(config.warmup)),
      decay_begin_(warmup_) {
  if (config.type == "wsd") {
    decay_begin_ = std::max(warmup_, total_ - run.resolve(config.decay));
  } else if (config.type == "constant") {
    decay_begin_ = total_;
    shape_ = "linear";  // of a decay that never begins
  } else if (config.type != "cosine" && config.type != "linear" && config.type != "sqrt") {
    unknown_shape("lr_schedule.type", config.type);
  }
  decay_shape(shape_, 0);
  warmup_shape(warmup_shape_, 0);
}

double LrSchedule::at(double done) const {
  const double t = std::clamp(done, 0.0, total_);
  if (t < warmup_) {
    return peak_ * (warmup_start_ + (1 - warmup_start_) * warmup_shape(warmup_shape_, t / warmup_));
  }
  // Also where the decay is empty (constant, or a warm-up that fills the run): the peak holds.
  if (t <= decay_begin_) return peak_;
  const double p = (t - decay_begin_) / (total_ - decay_begin_);
  return floor_ + (peak_ - floor_) * decay_shape(shape_, p);
}

}  // namespace lmtrain
