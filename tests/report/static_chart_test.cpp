#include "report/static_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "report/runs_of_test.h"

namespace lmtrain {
namespace {

using Ticks = std::vector<double>;

std::vector<std::string> texts(const Ticks& ticks) {
  std::vector<std::string> result;
  for (const double tick : ticks) result.push_back(tick_text(tick, ticks[1] - ticks[0]));
  return result;
}

TEST(Axis, LinearTicksAreRoundAndInside) {
  EXPECT_EQ(texts(linear_ticks(0, 1e6, 5)),
            (std::vector<std::string>{"0", "200K", "400K", "600K", "800K", "1M"}));
  EXPECT_EQ(texts(linear_ticks(3.31, 3.52, 4)),
            (std::vector<std::string>{"3.35", "3.4", "3.45", "3.5"}));
  EXPECT_EQ(texts(linear_ticks(0, 0.003, 3)),
            (std::vector<std::string>{"0", "0.001", "0.002", "0.003"}));
  for (const double high : {1e-9, 0.7, 13.0, 5e11}) {
    const Ticks ticks = linear_ticks(0, high, 6);
    EXPECT_GE(ticks.size(), 4U) << high;
    EXPECT_LE(ticks.size(), 9U) << high;
    EXPECT_LE(ticks.back(), high * 1.0001) << high;
  }
}

TEST(Axis, NoTicksWithoutARange) {
  EXPECT_TRUE(linear_ticks(1, 1, 5).empty());
  EXPECT_TRUE(linear_ticks(2, 1, 5).empty());
  EXPECT_TRUE(linear_ticks(0, std::nan(""), 5).empty());
  EXPECT_TRUE(linear_ticks(-HUGE_VAL, 1, 5).empty());
  EXPECT_TRUE(power_ticks(0, 1, 5).empty());
  EXPECT_TRUE(power_ticks(2, 1, 5).empty());
  EXPECT_TRUE(power_ticks(1, HUGE_VAL, 5).empty());
  EXPECT_TRUE(power_ticks(std::nan(""), 1, 5).empty());
}

TEST(Axis, PowersOfTwo) {
  EXPECT_EQ(power_ticks(50, 1100, 6), (Ticks{64, 128, 256, 512, 1024}));
  EXPECT_EQ(power_ticks(1, 4096, 4), (Ticks{1, 16, 256, 4096}));
  EXPECT_EQ(power_ticks(64, 64, 4), Ticks{64});
}

TEST(Axis, TickTextIsShort) {
  EXPECT_EQ(tick_text(2.5e9, 5e8), "2.5B");
  EXPECT_EQ(tick_text(4096, 1024), "4096");
  EXPECT_EQ(tick_text(5e-4, 5e-4), "0.0005");
  EXPECT_EQ(tick_text(1e-5, 1e-5), "1e-05");
  EXPECT_EQ(tick_text(-1.5, 0.5), "-1.5");
  EXPECT_EQ(tick_text(1e18, 1e18), "1000000T");
}

using testing::finished_run;

const nlohmann::json kNone = nlohmann::json::object();

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

TEST(StaticChart, DrawsALineForEachRunThatHasTheFigure) {
  RunRecord without = finished_run("b", kNone, 3.0);
  without.curves = {};
  const std::vector<RunRecord> runs = {finished_run("a", kNone, 3.0), without,
                                       finished_run("c", kNone, 3.0)};
  const std::string svg = static_chart(charts_of(runs)[0], runs);
  EXPECT_EQ(occurrences(svg, "class=\"line "), 2U);
  EXPECT_NE(svg.find("class=\"line c0 d0\""), std::string::npos);
  EXPECT_NE(svg.find("class=\"line c2 d0\""), std::string::npos);
  EXPECT_NE(svg.find("aria-label=\"Training loss against tokens\""), std::string::npos);
  EXPECT_NE(svg.find(">tokens</text>"), std::string::npos);
  EXPECT_GT(occurrences(svg, "class=\"ytick\""), 2U);
}

TEST(StaticChart, CoordinatesAreFiniteAndCurvesAreCutAtGaps) {
  RunRecord run = finished_run("a", kNone, 3.0);
  run.curves.columns.at("loss").mean[4] = std::nanf("");
  run.curves.columns.at("loss").mean[9] = 3e38F;
  for (const Chart& chart : charts_of({run})) {
    const std::string svg = static_chart(chart, {run});
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
  }
  const std::string svg = static_chart(charts_of({run})[0], {run});
  std::smatch path;
  ASSERT_TRUE(std::regex_search(svg, path, std::regex("class=\"line[^>]* d=\"([^\"]*)\"")));
  EXPECT_EQ(occurrences(path[1], "M"), 2U);
  EXPECT_EQ(occurrences(path[1], "L"), 17U);  // 19 points in two parts
}

TEST(StaticChart, LongCurvesAreThinned) {
  RunRecord run = finished_run("a", kNone, 3.0);
  run.curves = curves_of(testing::falling_updates(2000), 2000);
  const std::string svg = static_chart(charts_of({run})[0], {run});
  EXPECT_EQ(occurrences(svg, "L"), 359U);
}

TEST(StaticChart, ManyRunsHaveDifferentClasses) {
  EXPECT_EQ(run_classes(0), "c0 d0");
  EXPECT_EQ(run_classes(5), "c5 d0");
  EXPECT_EQ(run_classes(6), "c0 d1");
  EXPECT_EQ(run_classes(24), "c0 d0");
}

TEST(StaticChart, TheFileOfACurveNeedsNoPage) {
  RunRecord run = finished_run("a", kNone, 3.0);
  run.evaluations = {{"eval_loss", {0, 20}, {0, 2000}, {0, 10}, {9.0, 3.0}}};
  const std::string svg = loss_curve_file(run);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\"")) << svg;
  EXPECT_EQ(occurrences(svg, "class=\"line "), 2U);
  EXPECT_EQ(occurrences(svg, "<style>"), 1U);
  EXPECT_EQ(occurrences(svg, "var("), 0U);
  EXPECT_NE(svg.find(">Held-out loss</text>"), std::string::npos);
  run.evaluations.clear();
  EXPECT_EQ(occurrences(loss_curve_file(run), "class=\"line "), 1U);
  run.curves = {};
  EXPECT_EQ(loss_curve_file(run), "");
}

TEST(StaticChart, TheHeldOutLossHasWhatWasForecastBesideIt) {
  RunRecord run = finished_run("a", kNone, 3.0);
  run.expected = {"/forecast", {{100, 5, 4, 6}, {2000, 3, 2.5, 3.5}}};
  const std::vector<Chart> charts = charts_of({run});
  for (const Chart& chart : charts) {
    const std::string svg = static_chart(chart, {run});
    const bool shows = chart.key == "eval_loss";
    EXPECT_EQ(occurrences(svg, "class=\"line c0 d0 expected\""), shows ? 1U : 0U) << chart.key;
    EXPECT_EQ(occurrences(svg, "class=\"band c0 d0\""), shows ? 1U : 0U) << chart.key;
  }
}

}  // namespace

}  // namespace lmtrain
