#include "schedule/rate_choice.h"

#include <algorithm>
#include <cmath>

#include "schedule/loss_law.h"

namespace lmtrain {
namespace {

constexpr int kLeastPairs = 2;

double gain_of(const RatePair& pair) { return std::log(pair.loss / pair.factor_loss); }

// Returns the quantile of Student's t that is as probable as two standard deviations of a normal
// distribution (the first term of its expansion by Fisher and Cornish).
double two_errors(double freedom) {
  constexpr double kNormal = 2;
  return kNormal * (1 + (kNormal * kNormal + 1) / (4 * freedom));
}

}  // namespace

std::vector<RateGain> rate_gains(std::span<const RatePair> pairs) {
  std::vector<RateGain> gains;
  for (const RatePair& pair : pairs) {
    if (std::ranges::find(gains, pair.factor, &RateGain::factor) == gains.end())
      gains.push_back({.factor = pair.factor});
  }
  for (RateGain& gain : gains) {
    double sum = 0;
    for (const RatePair& pair : pairs) {
      if (pair.factor != gain.factor) continue;
      sum += gain_of(pair);
      ++gain.pairs;
    }
    gain.gain = sum / gain.pairs;
  }
  std::erase_if(gains, [](const RateGain& gain) { return gain.pairs < kLeastPairs; });
  std::ranges::sort(gains, {}, &RateGain::factor);

  double freedom = 2;
  double squares = freedom * 2 * kSeedNoise * kSeedNoise;  // a pair has the noise of two runs
  for (const RateGain& gain : gains) {
    freedom += gain.pairs - 1;
    for (const RatePair& pair : pairs)
      if (pair.factor == gain.factor) squares += std::pow(gain_of(pair) - gain.gain, 2);
  }
  for (RateGain& gain : gains) {
    gain.standard_error = std::sqrt(squares / freedom / gain.pairs);
    gain.is_significant = gain.gain >= two_errors(freedom) * gain.standard_error;
  }
  return gains;
}

std::optional<double> kept_factor(std::span<const RateGain> gains) {
  std::optional<double> kept;
  double most = 0;
  for (const RateGain& gain : gains) {
    if (!gain.is_significant || gain.gain <= most) continue;
    most = gain.gain;
    kept = gain.factor;
  }
  return kept;
}

}  // namespace lmtrain
