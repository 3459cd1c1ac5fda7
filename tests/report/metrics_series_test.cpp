#include "report/metrics_series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "base/stop.h"
#include "base/support.h"
#include "report/runs_of_test.h"

namespace lmtrain {
namespace {

using testing::replace_file;
using testing::TemporaryFolder;

std::string update(int step, double loss) {
  return "{\"step\":" + std::to_string(step) + ",\"tokens\":" + std::to_string(100 * step) +
         ",\"loss\":" + std::to_string(loss) +
         ",\"grad_norm\":null,\"lr\":0.001,\"seq_len\":64,\"tokens_per_second\":200,\"mfu\":null,"
         "\"elapsed\":" +
         std::to_string(0.5 * step) + "}\n";
}
std::string evaluation(int step, double loss) {
  return "{\"step\":" + std::to_string(step) + ",\"tokens\":" + std::to_string(100 * step) +
         ",\"eval_loss\":" + std::to_string(loss) + ",\"eval_perplexity\":2.5}\n";
}

MetricsSeries series_of(const std::string& text) {
  const TemporaryFolder folder;
  replace_file(folder / "metrics.jsonl", text);
  return read_metrics_series(folder / "metrics.jsonl");
}

using Values = std::vector<double>;

TEST(MetricsSeries, UpdatesAndEvaluationsAreColumns) {
  const MetricsSeries series =
      series_of(evaluation(0, 9) + update(1, 8) + update(2, 7) + evaluation(2, 7.5) + update(3, 6));
  EXPECT_EQ(series.updates.step, (Values{1, 2, 3}));
  EXPECT_EQ(series.updates.tokens, (Values{100, 200, 300}));
  EXPECT_EQ(series.updates.elapsed, (Values{0.5, 1, 1.5}));
  EXPECT_EQ(series.updates.loss, (Values{8, 7, 6}));
  EXPECT_EQ(series.updates.seq_len, (Values{64, 64, 64}));
  for (const double value : series.updates.grad_norm) EXPECT_TRUE(std::isnan(value));
  for (const UpdateColumn& column : kUpdateColumns)
    EXPECT_EQ((series.updates.*column.values).size(), 3U) << column.key;
  ASSERT_EQ(series.evaluations.size(), 2U);
  const EvaluationColumn& loss = series.evaluations[0];
  EXPECT_EQ(loss.key, "eval_loss");
  EXPECT_EQ(loss.step, (Values{0, 2}));
  EXPECT_EQ(loss.tokens, (Values{0, 200}));
  EXPECT_EQ(loss.elapsed, (Values{0, 1}));
  EXPECT_EQ(loss.value, (Values{9, 7.5}));
  EXPECT_EQ(series.evaluations[1].key, "eval_perplexity");
}

TEST(MetricsSeries, NamedSetsAreFiguresOfTheirOwn) {
  const MetricsSeries series = series_of(
      "{\"step\":4,\"tokens\":400,\"eval_loss\":3,\"eval_loss/web\":2.5,\"eval_loss/"
      "code\":null}\n");
  ASSERT_EQ(series.evaluations.size(), 3U);
  for (const EvaluationColumn& column : series.evaluations) {
    ASSERT_EQ(column.value.size(), 1U) << column.key;
    EXPECT_EQ(std::isnan(column.value[0]), column.key == "eval_loss/code") << column.key;
  }
}

TEST(MetricsSeries, TornDamagedAndForeignLinesAreSkipped) {
  const MetricsSeries series = series_of(
      update(1, 8) + "{\"step\":2,\"tok\n" + "[1]\n" + "{\"step\":\"3\",\"seq_len\":1}\n" +
      "{\"step\":-1,\"seq_len\":1}\n" + "{\"seq_len\":1}\n" + "{\"step\":5}\n" + update(4, 5) +
      "{\"step\":5,\"tokens\":500,\"loss\":1,\"seq_len\":64}");  // no newline: torn
  EXPECT_EQ(series.updates.step, (Values{1, 4}));
  EXPECT_TRUE(series.evaluations.empty());
}

TEST(MetricsSeries, StepsThatAreWrittenAgainCountOnce) {
  // A run that went back from step 5 to step 2.
  const MetricsSeries series = series_of(
      update(1, 8) + update(2, 7) + evaluation(2, 7.2) + update(3, 60) + update(4, 50) +
      evaluation(4, 55) + update(5, 40) + update(3, 6) + update(4, 5) + evaluation(4, 5.5));
  EXPECT_EQ(series.updates.step, (Values{1, 2, 3, 4}));
  EXPECT_EQ(series.updates.loss, (Values{8, 7, 6, 5}));
  ASSERT_EQ(series.evaluations.size(), 2U);
  EXPECT_EQ(series.evaluations[0].step, (Values{2, 4}));
  EXPECT_EQ(series.evaluations[0].value, (Values{7.2, 5.5}));
}

TEST(MetricsSeries, ASignalEndsTheReading) {
  EXPECT_EQ(testing::exit_code_of([] {
              install_signal_handlers();
              std::raise(SIGTERM);
              try {
                series_of(update(1, 8));
              } catch (const StopRequested& stop) {
                return stop.signal == SIGTERM ? 0 : 1;
              }
              return 2;
            }),
            0);
}

TEST(MetricsSeries, AMissingFileHasNoneAndAFolderIsRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_metrics_series(folder / "missing").updates.size(), 0U);
  testing::error_of(ErrorKind::kData, [&] { read_metrics_series(folder.path()); });
}

TEST(Curves, FewUpdatesHaveABucketEach) {
  const RunCurves curves = curves_of(testing::falling_updates(5), 5);
  EXPECT_EQ(curves.step, (std::vector<float>{1, 2, 3, 4, 5}));
  EXPECT_EQ(curves.tokens, (std::vector<float>{100, 200, 300, 400, 500}));
  const CurveColumn& loss = curves.columns.at("loss");
  ASSERT_EQ(loss.mean.size(), 5U);
  EXPECT_FLOAT_EQ(loss.mean[3], 2.5);
  EXPECT_TRUE(loss.low.empty());
  EXPECT_TRUE(loss.high.empty());
}

TEST(Curves, ManyUpdatesKeepMeanLowestAndHighest) {
  UpdateColumns updates = testing::falling_updates(1000);
  for (size_t i = 0; i < 1000; ++i) updates.loss[i] = static_cast<double>(i);
  updates.loss[555] = 1e6;  // the spike of one update
  const RunCurves curves = curves_of(updates, 100);
  const CurveColumn& loss = curves.columns.at("loss");
  ASSERT_EQ(loss.mean.size(), 100U);
  for (size_t i = 0; i < 100; ++i) {
    const auto first = static_cast<float>(10 * i);
    EXPECT_EQ(curves.step[i], first + 10);
    EXPECT_EQ(loss.low[i], first);
    if (i == 55) continue;
    EXPECT_FLOAT_EQ(loss.mean[i], first + 4.5F);
    EXPECT_EQ(loss.high[i], first + 9);
  }
  EXPECT_EQ(loss.high[55], 1e6F);
}

TEST(Curves, EachUpdateIsInOneBucketWhateverTheirNumber) {
  for (const size_t count : {1U, 2U, 7U, 99U, 100U, 101U, 12345U}) {
    const RunCurves curves = curves_of(testing::falling_updates(count), 100);
    const CurveColumn& ones = curves.columns.at("grad_norm");
    ASSERT_EQ(ones.mean.size(), std::min<size_t>(count, 100)) << count;
    EXPECT_TRUE(std::all_of(ones.mean.begin(), ones.mean.end(), [](float x) { return x == 1; }));
    EXPECT_TRUE(std::is_sorted(curves.step.begin(), curves.step.end()));
    EXPECT_EQ(std::adjacent_find(curves.step.begin(), curves.step.end()), curves.step.end());
    EXPECT_EQ(curves.step.back(), static_cast<float>(count));
  }
}

TEST(Curves, ValuesThatAreNotFiniteAreLeftOut) {
  const double nan = std::nan(""), infinity = HUGE_VAL;
  const std::vector<double> values = {1, nan, 3, infinity, nan, nan, 5, 7, -infinity};
  const CurveColumn column = bucket_column(values, 3);
  EXPECT_EQ(column.mean[0], 2);
  EXPECT_TRUE(std::isnan(column.mean[1]));
  EXPECT_TRUE(std::isnan(column.low[1]));
  EXPECT_TRUE(std::isnan(column.high[1]));
  EXPECT_EQ(column.mean[2], 6);
  EXPECT_EQ(column.low[2], 5);
  EXPECT_EQ(column.high[2], 7);
}

TEST(Curves, AColumnWithoutAValueIsNotThere) {
  const RunCurves curves = curves_of(testing::falling_updates(3), 10);
  EXPECT_FALSE(curves.columns.contains("mfu"));
  EXPECT_TRUE(curves_of(UpdateColumns(), 10).columns.empty());
}

}  // namespace

}  // namespace lmtrain
