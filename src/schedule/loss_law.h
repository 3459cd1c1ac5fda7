// Predicts the held-out loss of a run from the losses of smaller runs on the same text.
//
// The law is L = E + 1 / (1 / S + 1 / M), with M = ((A / N^a)^q + (B / D'^b)^q)^(1 / q). Where M is
// far below S, and with q = 1, it is the law of Hoffmann et al. 2022 (2203.15556). N counts the
// parameters that multiply a token (count_multiplied of config/model_family.h), D' the tokens of
// the run, passes counting less. Losses are nats a target. docs/forecast.md has the mathematics;
// all functions are deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lmtrain {

// The size and length of a run.
struct RunSize {
  double parameters = 0;   // N
  double tokens = 0;       // targets that are trained
  double text_tokens = 0;  // targets of one pass over the text

  double passes() const { return tokens / text_tokens; }
  // In proportion to the FLOPs of training, attention left out.
  double cost() const { return parameters * tokens; }
};

// A run that was trained to its end, and its last held-out loss.
struct MeasuredRun {
  RunSize size;
  double loss = 0;
};

// The usual standard deviation of the logarithm of a loss between seeds.
inline constexpr double kSeedNoise = 0.004;

struct LossLaw {
  double floor = 0;                               // E
  double height = 0;                              // S: of an untrained model's loss above the floor
  double size_factor = 0, size_exponent = 0;      // A and a
  double tokens_factor = 0, tokens_exponent = 0;  // B and b
  // q: 1 adds the terms of size and tokens, and a large one takes the larger term.
  double sharpness = 0;
  // r: with U tokens of text and R passes after the first, D' = U + U r (1 - e^(-R / r))
  // (Muennighoff et al. 2023, 2305.16264).
  double worth_of_passes = 0;

  // Returns the loss at the end of a run of this size.
  double loss(const RunSize& size) const;
};

// An expected loss, and the interval in which the loss lies with 80 % probability.
struct LossRange {
  double expected = 0, low = 0, high = 0;
};

// Forecasts losses by the best fit of the law, and by fits to replicates of the runs.
struct LossForecast {
  std::vector<LossLaw> laws;  // the best fit, then the replicates
  double noise = 0;           // standard deviation of the logarithm of a measured loss
  // The law itself is off by a deviation of `drift` for each factor e by which parameters times
  // tokens exceed `reach`, the largest run's.
  double drift = 0, reach = 0;

  // Returns the loss to expect of a whole run of this size.
  LossRange at(const RunSize& size) const;
};
// The fewest pairs of size and length that the fit needs (count_rungs()).
inline constexpr int kLeastRungs = 4;

// Returns how many different pairs of size and length the runs have.
int count_rungs(std::span<const MeasuredRun> runs);
// Fits the law to the logarithms of the losses, with Huber's loss and with priors, and again to
// each replicate: random weights of the runs, losses moved by noise, and moved means of the priors.
// The prior of S depends on `vocab_size`, the rows of the embedding. Throws Error(kUsage) if
// count_rungs() is below kLeastRungs.
LossForecast fit_forecast(std::span<const MeasuredRun> runs, int64_t vocab_size);

// A held-out loss within a run.
struct LossPoint {
  double tokens = 0;
  double loss = 0;
};

// How far the loss of a run lies above the law before the run's end, while its learning rate has
// not fallen yet. At the share f of its tokens, the loss is e^excess times the law's loss of a
// whole run of f times the tokens. `spread` is the standard deviation of `excess` among runs. Both
// are of the largest run, and grow with parameters times tokens to the power kCourseGrowth
// (docs/forecast.md has the measurement).
struct CoursePoint {
  double share = 0, excess = 0, spread = 0;
};
inline constexpr double kCourseGrowth = 0.3;
// Returns the mean course at every twentieth of a run. `curves[i]` has the evaluations of runs[i]
// by ascending tokens, the last one at its end. Ignores evaluations at step 0, and then runs with
// fewer than three; if no run is left, `excess` is 0. Large runs count more.
std::vector<CoursePoint> mean_course(const LossLaw& law, std::span<const MeasuredRun> runs,
                                     std::span<const std::vector<LossPoint>> curves);
// Returns the expected loss of the run `size` at the share point.share of its tokens.
LossRange range_within_run(const LossForecast& forecast, const RunSize& size,
                           const CoursePoint& point);

}  // namespace lmtrain
