// The curves of docs/schedules.md.

#include "schedule/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace lmtrain {
namespace {

double half_cosine(double p) { return (1 + std::cos(std::numbers::pi * p)) / 2; }

// Rises from 0 at x = 0 to 1 at x = 1.
double warmup_shape(WarmupShape shape, double x) {
  switch (shape) {
    case WarmupShape::kLinear:
      return x;
    case WarmupShape::kSqrt:
      return std::sqrt(x);
    case WarmupShape::kCosine:
      return 1 - half_cosine(x);
  }
  throw Error(ErrorKind::kInternal, "lr_schedule.warmup_shape has a shape without a formula");
}

// Falls from 1 at p = 0 to 0 at p = 1.
double decay_shape(DecayShape shape, double p) {
  switch (shape) {
    case DecayShape::kLinear:
      return 1 - p;
    case DecayShape::kSqrt:
      return std::sqrt(1 - p);
    case DecayShape::kOneMinusSqrt:
      return 1 - std::sqrt(p);
    case DecayShape::kCosine:
      return half_cosine(p);
  }
  throw Error(ErrorKind::kInternal, "lr_schedule.decay_shape has a shape without a formula");
}

DecayShape shape_of(const LrScheduleConfig& config) {
  switch (config.type) {
    case LrScheduleType::kCosine:
      return DecayShape::kCosine;
    case LrScheduleType::kLinear:
    case LrScheduleType::kConstant:  // of a decay that never begins
      return DecayShape::kLinear;
    case LrScheduleType::kSqrt:
      return DecayShape::kSqrt;
    case LrScheduleType::kWsd:
      return config.decay_shape;
  }
  throw Error(ErrorKind::kInternal, "lr_schedule.type has a schedule without a shape");
}

}  // namespace

LrSchedule::LrSchedule(const LrScheduleConfig& config, double peak, const RunClock& run)
    : shape_(shape_of(config)),
      warmup_shape_(config.warmup_shape),
      peak_(peak),
      floor_(config.min_ratio * peak),
      warmup_start_(config.warmup_start),
      total_(run.total),
      warmup_(run.resolve(config.warmup)),
      decay_begin_(warmup_) {
  if (config.type == LrScheduleType::kWsd) {
    decay_begin_ = std::max(warmup_, total_ - run.resolve(config.decay));
  } else if (config.type == LrScheduleType::kConstant) {
    decay_begin_ = total_;
  }
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

namespace {

// Steps after which a weight has halved, less one. The authors' small number keeps a rate of 0 from
// log(0).
double half_life(double beta) { return std::log(0.5) / std::log(beta + 1e-8) - 1; }
double beta_of(double half_life) { return std::pow(0.5, 1 / (half_life + 1)); }

}  // namespace

double linear_warmup(double begin, double end, double done, double over) {
  if (done >= over) return end;
  const double part = done / over;
  return (1 - part) * begin + part * end;
}

double half_life_warmup(double begin, double end, double done, double over) {
  if (done >= over) return end;
  return beta_of(linear_warmup(half_life(begin), half_life(end), done, over));
}

}  // namespace lmtrain
