#include "schedule/loss_law.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace lmtrain {
namespace {

constexpr int64_t kVocabSize = 2048;
constexpr LossLaw kTrue = {.floor = 0.7,
                           .height = 6.3,
                           .size_factor = 700,
                           .size_exponent = 0.45,
                           .tokens_factor = 1700,
                           .tokens_exponent = 0.43,
                           .sharpness = 1.4,
                           .worth_of_passes = 12};
constexpr double kText = 30e6;

// Five costs with size and tokens in proportion, two runs beside them, and two second seeds. The
// noise is of the logarithm.
std::vector<MeasuredRun> ladder(double noise, uint64_t seed, const LossLaw& law = kTrue) {
  std::vector<MeasuredRun> runs;
  const auto add = [&](double parameters, double tokens) {
    const RunSize size = {parameters, tokens, kText};
    const double off =
        noise * random_normal(seed, RandomStream::kBench, static_cast<uint64_t>(runs.size()));
    runs.push_back({size, law.loss(size) * std::exp(off)});
  };
  for (int i = 0; i < 5; ++i) add(2e6 / std::pow(1.73, i), 20e6 / std::pow(1.73, i));
  add(2e6, 2.2e6);
  add(0.22e6, 20e6);
  for (int i = 3; i < 5; ++i) add(2e6 / std::pow(1.73, i), 20e6 / std::pow(1.73, i));
  return runs;
}

TEST(LossLaw, PassesOverATextCountLess) {
  const auto loss_of_tokens = [](double tokens, double text) {
    return kTrue.loss({1e6, tokens, text}) - kTrue.loss({1e6, 1e30, 1e30});
  };
  EXPECT_DOUBLE_EQ(loss_of_tokens(1e6, 1e6), loss_of_tokens(1e6, 1e9));
  EXPECT_GT(loss_of_tokens(4e6, 1e6), loss_of_tokens(4e6, 1e9));
  EXPECT_LT(loss_of_tokens(4e6, 1e6), loss_of_tokens(2e6, 1e6));
  // So many passes as never end are worth 1 + r of them.
  EXPECT_NEAR(loss_of_tokens(1e12, 1e6), loss_of_tokens(13e6, 1e9), 1e-6);
}

TEST(LossLaw, ExactLossesAreForetoldFarBeyondTheLadder) {
  const LossForecast forecast = fit_forecast(ladder(0, 1), kVocabSize);
  for (const double times : {1.0, 10.0, 100.0}) {
    const double root = std::sqrt(times);
    const RunSize size = {2e6 * root, 20e6 * root, 1e12};
    EXPECT_NEAR(forecast.at(size).expected / kTrue.loss(size), 1, 0.006 * (1 + std::log10(times)))
        << times;
  }
}

TEST(LossLaw, TheIntervalHoldsFourOfFive) {
  int held = 0, count = 0;
  double sum = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    // Other laws, as other texts have.
    LossLaw law = kTrue;
    const auto varied = [&](double middle, double deviation, uint64_t which) {
      return middle * std::exp(deviation * random_normal(seed, RandomStream::kBench, which));
    };
    law.floor = varied(0.7, 0.4, 100);
    law.height = varied(6.3, 0.07, 104);
    law.size_exponent = varied(0.42, 0.15, 101);
    law.size_factor = 1.4 * std::pow(1e6, law.size_exponent);
    law.tokens_exponent = varied(0.42, 0.15, 102);
    law.tokens_factor = 1.7 * std::pow(1e7, law.tokens_exponent);
    law.sharpness = varied(1.5, 0.2, 105);
    const LossForecast forecast = fit_forecast(ladder(0.004, seed, law), kVocabSize);
    const RunSize size = {8e6, 80e6, 1e12};  // 16 times the cost of the largest
    const double loss =
        law.loss(size) * std::exp(0.004 * random_normal(seed, RandomStream::kBench, 103));
    const LossRange range = forecast.at(size);
    EXPECT_LT(range.low, range.expected);
    EXPECT_LT(range.expected, range.high);
    held += range.low <= loss && loss <= range.high ? 1 : 0;
    sum += std::abs(std::log(range.expected / loss));
    ++count;
  }
  EXPECT_GE(held, 0.7 * count);
  EXPECT_LE(held, 0.9 * count);
  EXPECT_LT(sum / count, 0.018);
}

TEST(LossLaw, AnOutlierMovesTheForecastLittle) {
  const std::vector<MeasuredRun> runs = ladder(0.002, 3);
  const RunSize size = {6e6, 60e6, 1e12};
  const double before = fit_forecast(runs, kVocabSize).at(size).expected;
  // All but the largest run, which tells most.
  for (size_t i = 1; i < runs.size(); ++i) {
    std::vector<MeasuredRun> off = runs;
    off[i].loss *= 1.1;
    EXPECT_NEAR(fit_forecast(off, kVocabSize).at(size).expected / before, 1, 0.045) << i;
  }
}

TEST(LossLaw, FewRunsGiveAWideInterval) {
  const std::vector<MeasuredRun> runs = ladder(0.003, 5);
  const RunSize size = {6e6, 60e6, 1e12};
  const auto width = [&](size_t first, size_t count) {
    const LossRange range =
        fit_forecast(std::span(runs).subspan(first, count), kVocabSize).at(size);
    return std::log(range.high / range.low);
  };
  EXPECT_GT(width(1, 4), 1.4 * width(0, 9));
}

TEST(LossLaw, ADriftWidensWhatLiesBeyondTheLadder) {
  LossForecast forecast = fit_forecast(ladder(0.003, 5), kVocabSize);
  EXPECT_EQ(forecast.reach, 2e6 * 20e6);
  const auto width = [&](double times) {
    const LossRange range = forecast.at({2e6 * times, 20e6, 1e12});
    return std::log(range.high / range.low);
  };
  const double inside = width(1), beyond = width(20);
  forecast.drift = 0.033;
  EXPECT_EQ(width(1), inside);
  EXPECT_GT(width(20), beyond + 0.05);
  EXPECT_GT(width(20), 2 * 1.28 * 0.033 * std::log(20));
}

TEST(LossLaw, FewerThanFourRungsAreRefused) {
  const std::vector<MeasuredRun> runs = ladder(0.003, 5);
  EXPECT_EQ(count_rungs(runs), 7);  // second seeds are no rungs
  const std::vector<MeasuredRun> few = {runs[2], runs[3], runs[4], runs[7], runs[8]};
  EXPECT_EQ(count_rungs(few), 3);
  try {
    fit_forecast(few, kVocabSize);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

TEST(LossLaw, EqualRunsGiveEqualForecasts) {
  const LossForecast a = fit_forecast(ladder(0.004, 7), kVocabSize),
                     b = fit_forecast(ladder(0.004, 7), kVocabSize);
  const RunSize size = {6e6, 60e6, 1e12};
  EXPECT_EQ(a.at(size).low, b.at(size).low);
  EXPECT_EQ(a.at(size).high, b.at(size).high);
}

TEST(LossLaw, TheCourseOfRunsTellsTheLossWithinARun) {
  const std::vector<MeasuredRun> runs = ladder(0, 1);
  // A run that is not at its end is above the law, the more the further its end is, and the larger
  // the run.
  const double reach = 2e6 * 20e6;
  const auto above = [&](const RunSize& size, double share) {
    return 0.1 * (1 - share) * std::pow(size.cost() / reach, kCourseGrowth);
  };
  const auto curve = [&](const RunSize& size, int points) {
    std::vector<LossPoint> points_of_run = {{0, 9.0}};
    for (int i = 1; i <= points; ++i) {
      RunSize part = size;
      const double share = static_cast<double>(i) / points;
      part.tokens *= share;
      points_of_run.push_back({part.tokens, kTrue.loss(part) * std::exp(above(size, share))});
    }
    return points_of_run;
  };
  std::vector<std::vector<LossPoint>> curves;
  for (const MeasuredRun& run : runs) curves.push_back(curve(run.size, 20));
  const LossForecast forecast = {.laws = {kTrue, kTrue}, .noise = 0.004, .reach = reach};
  const std::vector<CoursePoint> course = mean_course(kTrue, runs, curves);
  ASSERT_EQ(course.size(), 20U);
  const RunSize target = {6e6, 60e6, 1e12};
  for (const CoursePoint& point : course) {
    EXPECT_NEAR(point.excess, 0.1 * (1 - point.share), 1e-9);
    EXPECT_NEAR(point.spread, 0, 1e-6);
    RunSize part = target;
    part.tokens *= point.share;
    const LossRange range = range_within_run(forecast, target, point);
    EXPECT_NEAR(range.expected, kTrue.loss(part) * std::exp(above(target, point.share)), 1e-9);
    EXPECT_NEAR(std::log(range.high / range.expected), 1.2816 * 0.004, 1e-5);
  }
}

}  // namespace
}  // namespace lmtrain
