#include "runlog/prometheus.h"

#include <cmath>

#include "base/support.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

TEST(Prometheus, AFileHasEachFigureWithItsLabels) {
  const TemporaryFolder folder;
  PrometheusFile file(folder / "a.prom", "a\\b\"c\nd\xFF", "tree");
  file.write({.step = 3,
              .tokens = 384,
              .loss = 5.25,
              .eval_loss = std::nan(""),
              .grad_norm = INFINITY,
              .lr = 1e-3,
              .tokens_per_second = 9.5,
              .last_step_time = 1750000000.25});
  const std::string text = read_file(folder / "a.prom");
  const std::string labels = "{run=\"a\\\\b\\\"c\\nd\xEF\xBF\xBD\",host=\"tree\"} ";
  EXPECT_TRUE(
      text.starts_with("# HELP lmtrain_step Updates applied.\n# TYPE lmtrain_step gauge\n"
                       "lmtrain_step" +
                       labels + "3\n"))
      << text;
  for (const char* line :
       {"tokens@384", "loss@5.25", "eval_loss@NaN", "tokens_per_second@9.5", "lr@0.001",
        "grad_norm@+Inf", "last_step_timestamp_seconds@1750000000.250"}) {
    std::string sample = std::string("\nlmtrain_") + line + "\n";
    sample.replace(sample.find('@'), 1, labels);
    EXPECT_NE(text.find(sample), std::string::npos) << sample << text;
  }
}

TEST(Prometheus, FiguresThatAreNotKnownAreLeftOut) {
  const TemporaryFolder folder;
  PrometheusFile file(folder / "a.prom", "a", "tree");
  file.write({.step = 3, .tokens = 384, .loss = 1.0});
  file.refresh({});
  EXPECT_EQ(read_file(folder / "a.prom"),
            "# HELP lmtrain_step Updates applied.\n# TYPE lmtrain_step gauge\n"
            "lmtrain_step{run=\"a\",host=\"tree\"} 0\n"
            "# HELP lmtrain_tokens Targets of the applied updates.\n"
            "# TYPE lmtrain_tokens gauge\nlmtrain_tokens{run=\"a\",host=\"tree\"} 0\n");
}

TEST(Prometheus, AFailureIsOneWarningUntilItWorksAgain) {
  const TemporaryFolder folder;
  PrometheusFile file(folder / "sub/a.prom", "a", "tree");
  error_of(ErrorKind::kIo, [&] { file.write({}); });
  const auto said = [&] {
    ::testing::internal::CaptureStderr();
    file.refresh({});
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(said().find("(log.prometheus); the run goes on without it"), std::string::npos);
  EXPECT_EQ(said(), "");
  std::filesystem::create_directory(folder / "sub");
  EXPECT_EQ(said(), "");
  std::filesystem::remove_all(folder / "sub");
  EXPECT_NE(said(), "");
}

TEST(Prometheus, APathThatCannotBeWrittenIsRefusedAtTheStart) {
  const TemporaryFolder folder;
  LogConfig config;
  require_prometheus_writable(config);
  const auto refused = [&](ErrorKind kind, const std::string& path) {
    config.prometheus = path;
    return error_of(kind, [&] { require_prometheus_writable(config); });
  };
  for (const std::string& path : {(folder / "none/a.prom").string(), (folder / ".").string(),
                                  (folder / "").string() + "/", std::string("/dev/null")}) {
    EXPECT_NE(refused(ErrorKind::kUsage, path).find("/log/prometheus"), std::string::npos) << path;
  }
  config.prometheus = (folder / "a.prom").string();
  require_prometheus_writable(config);
  const std::string own = "# HELP lmtrain_step Updates applied.\n";
  for (const std::string& earlier : {std::string(), own}) {
    write_file_atomic(folder / "a.prom", earlier);
    require_prometheus_writable(config);
    EXPECT_EQ(read_file(folder / "a.prom"), earlier) << "a check writes nothing";
  }
  for (const char* precious : {"# HELP node_load1", "# H", "my text\n"}) {
    write_file_atomic(folder / "a.prom", precious);
    EXPECT_NE(refused(ErrorKind::kUsage, *config.prometheus).find("would be replaced"),
              std::string::npos)
        << precious;
  }
}

}  // namespace
}  // namespace lmtrain
