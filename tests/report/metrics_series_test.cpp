#include "report/metrics_series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "base/stop.h"
#include "base/support.h"

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

}  // namespace
}  // namespace lmtrain
