// Decides by the smallest rungs of a ladder whether all learning rates should be multiplied by a
// factor. A rung is trained by the rates of the config, and again by these rates times a factor,
// from the same seed. A factor is kept if its losses are lower by two standard errors.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace lmtrain {

// The losses of two runs that differ only in their rates.
struct RatePair {
  double factor = 1;  // of the second run's rates to the first run's rates
  double loss = 0, factor_loss = 0;
};

// What a factor gains: the mean over its pairs of log(loss / factor_loss).
struct RateGain {
  double factor = 1;
  int pairs = 0;
  double gain = 0;
  double standard_error = 0;
  bool is_significant = false;  // the gain is at least two standard errors (rate_gains())
};

// Returns the gain of each factor that has at least two pairs, by ascending factor. All factors
// share one estimate of the noise of a pair; the usual noise between seeds counts in it as two
// degrees of freedom. Since the pairs are few, Student's t widens the limit of two standard errors:
// to 2.3 for four pairs of each of two factors.
std::vector<RateGain> rate_gains(std::span<const RatePair> pairs);

// Returns the significant factor with the highest gain, or none: then the rates stay.
std::optional<double> kept_factor(std::span<const RateGain> gains);

}  // namespace lmtrain
