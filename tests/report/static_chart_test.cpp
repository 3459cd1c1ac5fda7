#include "report/static_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "report/runs_of_test.h"

namespace lmtrain {
namespace {

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
