#include "schedule/loss_law.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

namespace lmtrain {
namespace {

// The logarithms of E, S, A / N0^a, a, B / D0^b, b, q and r, where N0 and D0 are the middle of the
// runs.
enum Index {
  kFloor,
  kHeight,
  kSize,
  kSizeExponent,
  kTokens,
  kTokensExponent,
  kSharpness,
  kWorth,
  kCount
};
using Values = std::array<double, kCount>;
using Matrix = std::array<Values, kCount>;

constexpr int kReplicates = 200;
// Random weights make a part of the spread. With this part of the noise beside them the interval
// holds 52 of 60 synthetic runs (tests/schedule/loss_law_test.cpp).
constexpr double kMoved = 0.5;
constexpr double kHuber =
    1.345;  // in standard deviations: 95 % as good as squares without outliers
constexpr double kDecile = 1.2816;  // the tenth of a normal distribution lies above this
// The priors' middles, fitted to small runs on three texts (docs/forecast.md), and r of Muennighoff
// et al.
constexpr double kUsualFloor = 0.2;   // of the lowest loss
constexpr double kUsualStart = 0.92;  // E + S, as a share of log(vocab_size), a guess's loss
constexpr double kUsualSizeExponent = 0.48, kUsualTokensExponent = 0.43;
constexpr double kUsualSharpness = 1.5, kUsualWorth = 15.39;

struct Middle {
  double log_parameters = 0, log_tokens = 0;
};

struct Prior {
  Values mean{}, deviation{};
};

// The data of one fit: measured losses with weights, and the priors.
struct Problem {
  std::span<const MeasuredRun> runs;
  std::vector<double> log_losses, weights;
  Middle middle;
  Prior prior;
  double noise = kSeedNoise;
};

double effective_tokens(const RunSize& size, double worth) {
  const double again = size.passes() - 1;
  if (again <= 0) return size.tokens;
  return size.text_tokens * (1 + worth * (1 - std::exp(-again / worth)));
}

// Holds the logarithms of A / N^a and B / D'^b, which M joins.
struct Terms {
  double of_size = 0, of_tokens = 0;
  double sharpness = 1;
  // The logarithm of M.
  double both() const {
    const double larger = std::max(of_size, of_tokens), smaller = std::min(of_size, of_tokens);
    return larger + std::log1p(std::exp(sharpness * (smaller - larger))) / sharpness;
  }
  // Returns by how many percent M grows where the term grows by one percent.
  double share(double of_term) const { return std::exp(sharpness * (of_term - both())); }
};

double above_floor(double height, const Terms& terms) {
  return 1 / (1 / height + std::exp(-terms.both()));
}

LossLaw law_of(const Values& values, const Middle& middle) {
  const double a = std::exp(values[kSizeExponent]), b = std::exp(values[kTokensExponent]);
  return {.floor = std::exp(values[kFloor]),
          .height = std::exp(values[kHeight]),
          .size_factor = std::exp(values[kSize] + a * middle.log_parameters),
          .size_exponent = a,
          .tokens_factor = std::exp(values[kTokens] + b * middle.log_tokens),
          .tokens_exponent = b,
          .sharpness = std::exp(values[kSharpness]),
          .worth_of_passes = std::exp(values[kWorth])};
}

// The logarithm of the law's loss, and its derivatives.
double log_loss(const Values& values, const Middle& middle, const RunSize& size, Values& slope) {
  const double a = std::exp(values[kSizeExponent]), b = std::exp(values[kTokensExponent]);
  const double worth = std::exp(values[kWorth]);
  const double tokens = effective_tokens(size, worth);
  const double log_parameters = std::log(size.parameters) - middle.log_parameters;
  const double log_tokens = std::log(tokens) - middle.log_tokens;
  const double floor = std::exp(values[kFloor]), height = std::exp(values[kHeight]);
  const Terms terms = {values[kSize] - a * log_parameters, values[kTokens] - b * log_tokens,
                       std::exp(values[kSharpness])};
  const double above = above_floor(height, terms);
  const double loss = floor + above;
  const double of_size = terms.share(terms.of_size), of_tokens = terms.share(terms.of_tokens);
  const double again = std::max(0.0, size.passes() - 1) / worth;
  const double tokens_slope =
      size.text_tokens * worth * (1 - std::exp(-again) * (1 + again)) / tokens;
  const double of_both = above * above / std::exp(terms.both()) / loss;
  slope = {
      floor / loss,
      above * above / height / loss,
      of_both * of_size,
      -a * log_parameters * of_both * of_size,
      of_both * of_tokens,
      -b * log_tokens * of_both * of_tokens,
      of_both * (of_size * terms.of_size + of_tokens * terms.of_tokens - terms.both()),
      -b * tokens_slope * of_both * of_tokens,
  };
  return std::log(loss);
}

// The sum of Huber's losses and of the priors; optionally its slope, and the matrix of Gauss and
// Newton.
double objective(const Problem& problem, const Values& values, Values* gradient, Matrix* normal) {
  double sum = 0;
  for (size_t i = 0; i < problem.runs.size(); ++i) {
    Values slope;
    const double residual =
        (log_loss(values, problem.middle, problem.runs[i].size, slope) - problem.log_losses[i]) /
        problem.noise;
    const double size = std::abs(residual);
    const double weight = problem.weights[i];
    sum += weight * (size <= kHuber ? size * size / 2 : kHuber * (size - kHuber / 2));
    if (gradient == nullptr) continue;
    const double bend = weight * std::min(1.0, kHuber / std::max(size, 1e-300)) / problem.noise;
    for (size_t j = 0; j < kCount; ++j) {
      (*gradient)[j] += bend * residual * slope[j];
      for (size_t k = 0; k < kCount; ++k)
        (*normal)[j][k] += bend * slope[j] * slope[k] / problem.noise;
    }
  }
  for (size_t j = 0; j < kCount; ++j) {
    const double residual = (values[j] - problem.prior.mean[j]) / problem.prior.deviation[j];
    sum += residual * residual / 2;
    if (gradient == nullptr) continue;
    (*gradient)[j] += residual / problem.prior.deviation[j];
    (*normal)[j][j] += 1 / (problem.prior.deviation[j] * problem.prior.deviation[j]);
  }
  return sum;
}

// Solves a positive definite system by Cholesky's method.
Values solve(Matrix matrix, Values right) {
  for (size_t j = 0; j < kCount; ++j) {
    for (size_t k = 0; k < j; ++k) matrix[j][j] -= matrix[j][k] * matrix[j][k];
    matrix[j][j] = std::sqrt(std::max(matrix[j][j], 1e-300));
    for (size_t i = j + 1; i < kCount; ++i) {
      for (size_t k = 0; k < j; ++k) matrix[i][j] -= matrix[i][k] * matrix[j][k];
      matrix[i][j] /= matrix[j][j];
    }
  }
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t k = 0; k < i; ++k) right[i] -= matrix[i][k] * right[k];
    right[i] /= matrix[i][i];
  }
  for (size_t i = kCount; i-- > 0;) {
    for (size_t k = i + 1; k < kCount; ++k) right[i] -= matrix[k][i] * right[k];
    right[i] /= matrix[i][i];
  }
  return right;
}

// Levenberg and Marquardt's method. The priors make every step's matrix positive definite.
Values minimize(const Problem& problem, Values values) {
  double damping = 1e-3;
  double least = objective(problem, values, nullptr, nullptr);
  for (int round = 0; round < 100; ++round) {
    Values gradient{};
    Matrix normal{};
    objective(problem, values, &gradient, &normal);
    bool moved = false;
    double gain = 0;
    while (!moved && damping < 1e9) {
      Matrix damped = normal;
      for (size_t j = 0; j < kCount; ++j) damped[j][j] *= 1 + damping;
      const Values step = solve(damped, gradient);
      Values next = values;
      for (size_t j = 0; j < kCount; ++j) next[j] -= std::clamp(step[j], -2.0, 2.0);
      const double value = objective(problem, next, nullptr, nullptr);
      moved = value < least;
      damping *= moved ? 0.3 : 4;
      if (!moved) continue;
      gain = least - value;
      values = next;
      least = value;
    }
    if (!moved || gain < 1e-10 * (1 + least)) break;
  }
  return values;
}

// The middles make the terms of size and tokens equal. E, r and the terms have wide deviations, so
// that a few runs overrule them; S, a, b and q have narrow ones.
Prior usual_prior(std::span<const MeasuredRun> runs, int64_t vocab_size) {
  double lowest = std::numeric_limits<double>::infinity();
  double mean = 0;
  for (const MeasuredRun& run : runs) {
    lowest = std::min(lowest, run.loss);
    mean += run.loss / static_cast<double>(runs.size());
  }
  const double floor = kUsualFloor * lowest;
  const double guess = std::log(static_cast<double>(vocab_size));
  // A small vocabulary, or losses above a guess, must not make the height negative.
  const double height = std::max(kUsualStart * guess - floor, lowest);
  // M of a run with the mean loss; at most ten heights, since a loss above E + S has no M.
  const double both = 1 / std::max(1 / (mean - floor) - 1 / height, 0.1 / height);
  const double part = std::log(both) - std::log(2.0) / kUsualSharpness;
  return {
      .mean = {std::log(floor), std::log(height), part, std::log(kUsualSizeExponent), part,
               std::log(kUsualTokensExponent), std::log(kUsualSharpness), std::log(kUsualWorth)},
      .deviation = {0.7, 0.1, 1.0, 0.2, 1.0, 0.15, 0.3, 0.7}};
}

Middle middle_of(std::span<const MeasuredRun> runs) {
  Middle middle;
  for (const MeasuredRun& run : runs) {
    middle.log_parameters += std::log(run.size.parameters) / static_cast<double>(runs.size());
    middle.log_tokens += std::log(run.size.tokens) / static_cast<double>(runs.size());
  }
  return middle;
}

bool is_one_rung(const RunSize& a, const RunSize& b) {
  return std::abs(std::log(a.parameters / b.parameters)) < 0.01 &&
         std::abs(std::log(a.tokens / b.tokens)) < 0.01;
}

// Returns the runs of the same size and length as run i.
std::vector<size_t> seeds_of(std::span<const MeasuredRun> runs, size_t i) {
  std::vector<size_t> seeds;
  for (size_t j = 0; j < runs.size(); ++j)
    if (is_one_rung(runs[i].size, runs[j].size)) seeds.push_back(j);
  return seeds;
}

// The noise between seeds; kSeedNoise counts as two degrees of freedom.
double seed_noise(std::span<const MeasuredRun> runs) {
  constexpr double kUsualFreedom = 2;
  double squares = kUsualFreedom * kSeedNoise * kSeedNoise;
  double freedom = kUsualFreedom;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<size_t> seeds = seeds_of(runs, i);
    double mean = 0;
    for (const size_t j : seeds) mean += std::log(runs[j].loss) / static_cast<double>(seeds.size());
    const double off = std::log(runs[i].loss) - mean;
    squares += off * off;
    freedom += 1 - 1 / static_cast<double>(seeds.size());
  }
  return std::sqrt(squares / freedom);
}

// From several beginnings; the lowest end counts.
Values best_fit(const Problem& problem) {
  Values best = problem.prior.mean;
  double least = std::numeric_limits<double>::infinity();
  for (const double floor : {-0.7, 0.0, 0.5}) {
    for (const double exponent : {-0.7, 0.0, 0.7}) {
      Values begin = problem.prior.mean;
      begin[kFloor] += floor;
      begin[kSizeExponent] += exponent;
      begin[kTokensExponent] += exponent;
      const Values end = minimize(problem, begin);
      const double value = objective(problem, end, nullptr, nullptr);
      if (value >= least) continue;
      least = value;
      best = end;
    }
  }
  return best;
}

// The noise of losses about the law: between seeds, or the misfit of the law if larger.
double noise_about(const Problem& problem, const Values& values) {
  double squares = 0;
  for (size_t i = 0; i < problem.runs.size(); ++i) {
    Values slope;
    const double off =
        log_loss(values, problem.middle, problem.runs[i].size, slope) - problem.log_losses[i];
    squares += off * off;
  }
  constexpr double kFitted = 4;  // about so many of the values are fitted, and not of the priors
  const double freedom = std::max(2.0, static_cast<double>(problem.runs.size()) - kFitted);
  return std::max(problem.noise, std::sqrt(squares / freedom));
}

Problem replicate(const Problem& problem, int number) {
  Problem replicate = problem;
  uint64_t index = static_cast<uint64_t>(number) << 20;
  const auto normal = [&] { return random_normal(0, RandomStream::kBootstrap, index++); };
  double sum = 0;
  for (size_t i = 0; i < problem.runs.size(); ++i) {
    // Weights of Rubin's Bayesian bootstrap: exponential, as a half of two squared normals.
    const double u = normal(), v = normal();
    replicate.weights[i] = (u * u + v * v) / 2;
    sum += replicate.weights[i];
    replicate.log_losses[i] += kMoved * problem.noise * normal();
  }
  for (double& weight : replicate.weights) weight *= static_cast<double>(problem.runs.size()) / sum;
  for (size_t j = 0; j < kCount; ++j)
    replicate.prior.mean[j] += problem.prior.deviation[j] * normal();
  return replicate;
}

LossRange widened(const LossRange& range, double deviation) {
  const auto half = [&](double end) {
    return std::hypot(std::log(end / range.expected), kDecile * deviation);
  };
  return {range.expected, range.expected * std::exp(-half(range.low)),
          range.expected * std::exp(half(range.high))};
}

double largest_cost(std::span<const MeasuredRun> runs) {
  double largest = 0;
  for (const MeasuredRun& run : runs) largest = std::max(largest, run.size.cost());
  return largest;
}

// How many times as far as the run of cost `reach` a run lies above the law.
double course_factor(const RunSize& size, double reach) {
  return std::pow(size.cost() / reach, kCourseGrowth);
}

// The logarithm of loss over law at a share of the run, between the evaluations beside it. Before
// the first evaluation the line through the first two goes on.
double excess_at(const std::vector<LossPoint>& excess, double share) {
  if (excess.size() == 1) return excess[0].loss;
  size_t i = 1;
  while (i + 1 < excess.size() && excess[i].tokens < share) ++i;
  const LossPoint &a = excess[i - 1], &b = excess[i];
  const double part = std::log(share / a.tokens) / std::log(b.tokens / a.tokens);
  return a.loss + part * (b.loss - a.loss);
}

}  // namespace

double LossLaw::loss(const RunSize& size) const {
  const double tokens = effective_tokens(size, worth_of_passes);
  const Terms terms = {std::log(size_factor) - size_exponent * std::log(size.parameters),
                       std::log(tokens_factor) - tokens_exponent * std::log(tokens), sharpness};
  return floor + above_floor(height, terms);
}

LossRange LossForecast::at(const RunSize& size) const {
  const double expected = laws.front().loss(size);
  std::vector<double> losses;
  losses.reserve(laws.size());
  for (size_t i = 1; i < laws.size(); ++i) losses.push_back(laws[i].loss(size));
  if (losses.empty()) losses.push_back(expected);
  std::sort(losses.begin(), losses.end());
  const auto quantile = [&](double share) {
    return losses[static_cast<size_t>(share * static_cast<double>(losses.size() - 1))];
  };
  const double beyond = std::max(0.0, std::log(size.cost() / std::max(1.0, reach)));
  return widened({expected, std::min(expected, quantile(0.1)), std::max(expected, quantile(0.9))},
                 std::hypot(noise, drift * beyond));
}

int count_rungs(std::span<const MeasuredRun> runs) {
  int count = 0;
  for (size_t i = 0; i < runs.size(); ++i) count += seeds_of(runs, i).front() == i ? 1 : 0;
  return count;
}

LossForecast fit_forecast(std::span<const MeasuredRun> runs, int64_t vocab_size) {
  const int rungs = count_rungs(runs);
  if (rungs < kLeastRungs) {
    throw Error(ErrorKind::kUsage, str("a forecast needs runs of at least ", kLeastRungs,
                                       " sizes or lengths, and there are ", rungs));
  }
  Problem problem = {.runs = runs,
                     .log_losses = {},
                     .weights = std::vector<double>(runs.size(), 1.0),
                     .middle = middle_of(runs),
                     .prior = usual_prior(runs, vocab_size),
                     .noise = seed_noise(runs)};
  for (const MeasuredRun& run : runs) problem.log_losses.push_back(std::log(run.loss));
  problem.noise = noise_about(problem, best_fit(problem));
  const Values best = best_fit(problem);
  LossForecast forecast;
  forecast.noise = problem.noise;
  forecast.reach = largest_cost(runs);
  forecast.laws.push_back(law_of(best, problem.middle));
  for (int i = 0; i < kReplicates; ++i)
    forecast.laws.push_back(law_of(minimize(replicate(problem, i), best), problem.middle));
  return forecast;
}

std::vector<CoursePoint> mean_course(const LossLaw& law, std::span<const MeasuredRun> runs,
                                     std::span<const std::vector<LossPoint>> curves) {
  constexpr int kPoints = 20;
  constexpr size_t kLeastPoints = 3;  // evaluations, the last one included
  const double reach = largest_cost(runs);
  // For each run, by share of its tokens: log(loss / law's loss), less its value at the end.
  std::vector<std::vector<LossPoint>> excesses;
  std::vector<double> weights;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto off = [&](const LossPoint& point) {
      RunSize part = runs[i].size;
      part.tokens = point.tokens;
      return std::log(point.loss / law.loss(part));
    };
    std::vector<LossPoint> excess;
    for (const LossPoint& point : curves[i]) {
      if (point.tokens > 0) {
        excess.push_back(
            {point.tokens / curves[i].back().tokens,
             (off(point) - off(curves[i].back())) / course_factor(runs[i].size, reach)});
      }
    }
    if (excess.size() < kLeastPoints) continue;
    excesses.push_back(std::move(excess));
    weights.push_back(std::sqrt(runs[i].size.cost()));
  }
  std::vector<CoursePoint> course;
  for (int k = 1; k <= kPoints; ++k) {
    CoursePoint point = {.share = static_cast<double>(k) / kPoints};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < excesses.size(); ++i) {
      const double excess = excess_at(excesses[i], point.share);
      sum += weights[i];
      point.excess += weights[i] * excess;
      squares += weights[i] * excess * excess;
    }
    if (sum > 0) {
      point.excess /= sum;
      point.spread = std::sqrt(std::max(0.0, squares / sum - point.excess * point.excess));
    }
    course.push_back(point);
  }
  return course;
}

LossRange range_within_run(const LossForecast& forecast, const RunSize& size,
                           const CoursePoint& point) {
  RunSize part = size;
  part.tokens *= point.share;
  const LossRange range = forecast.at(part);
  const double growth = course_factor(size, forecast.reach);
  const double factor = std::exp(growth * point.excess);
  return widened({factor * range.expected, factor * range.low, factor * range.high},
                 growth * point.spread);
}

}  // namespace lmtrain
