#include "report/charts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "report/runs_of_test.h"

namespace lmtrain {
namespace {

std::vector<std::string> titles(const std::vector<RunRecord>& runs) {
  std::vector<std::string> result;
  for (const Chart& chart : charts_of(runs)) result.push_back(chart.title);
  return result;
}

TEST(Charts, OneForEachFigureThatSomeRunHas) {
  RunRecord run = testing::finished_run("a", nlohmann::json::object(), 3.0);
  EXPECT_EQ(titles({run}),
            (std::vector<std::string>{"Training loss", "Held-out loss", "Learning rate",
                                      "Gradient norm", "Throughput", "Sequence length"}));
  run.evaluations.insert(run.evaluations.begin(), {"eval_loss/web", {20}, {2000}, {10}, {2.0}});
  run.evaluations.push_back({"eval_bits_per_byte", {20}, {2000}, {10}, {1.5}});
  run.evaluations.push_back({"eval_perplexity", {20}, {2000}, {10}, {20}});
  run.evaluations.push_back({"core/centred", {20}, {2000}, {10}, {0.2}});
  run.evaluations.push_back({"eval_loss/none", {20}, {2000}, {10}, {std::nan("")}});
  EXPECT_EQ(titles({run}),
            (std::vector<std::string>{"Training loss", "Held-out loss", "Held-out loss: web",
                                      "Held-out bits per byte", "core/centred", "Learning rate",
                                      "Gradient norm", "Throughput", "Sequence length"}));
}

TEST(Charts, SetsFollowTheLossAndLengthsComeLast) {
  RunRecord run = testing::finished_run("a", nlohmann::json::object(), 3.0);
  for (const char* key : {"eval_bits_per_byte", "eval_bits_per_byte/prose", "eval_loss/length_128",
                          "eval_loss/length_64", "eval_loss/length_of_it", "eval_loss/prose"})
    run.evaluations.push_back({key, {20}, {2000}, {10}, {2.0}});
  const std::vector<std::string> all = titles({run});
  ASSERT_GE(all.size(), 8U);
  EXPECT_EQ(
      std::vector<std::string>(all.begin() + 1, all.begin() + 8),
      (std::vector<std::string>{
          "Held-out loss", "Held-out loss: length_of_it", "Held-out loss: prose",
          "Held-out bits per byte", "Held-out bits per byte: prose",
          "Held-out loss: documents of length 64", "Held-out loss: documents of length 128"}));
}

TEST(Charts, NarrowOnesStandInPairs) {
  RunRecord run = testing::finished_run("a", nlohmann::json::object(), 3.0);
  const auto num_narrow = [&] {
    const std::vector<Chart> charts = charts_of({run});
    return std::count_if(charts.begin(), charts.end(),
                         [](const Chart& chart) { return !chart.is_wide; });
  };
  EXPECT_EQ(num_narrow(), 4);
  run.evaluations.push_back({"eval_bits_per_byte", {20}, {2000}, {10}, {1.5}});
  EXPECT_EQ(num_narrow(), 4);
}

TEST(Charts, NoneForRunsWithoutFigures) {
  EXPECT_TRUE(charts_of({}).empty());
  EXPECT_TRUE(charts_of({RunRecord()}).empty());
}

}  // namespace
}  // namespace lmtrain
