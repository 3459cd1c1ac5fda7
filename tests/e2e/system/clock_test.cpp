// A clock that is set, back or forward, changes the times that are printed and nothing else.
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

ProcessOptions jumping() {
  constexpr const char* kTwentyYears = "631152000";
  ProcessOptions options;
  options.env = {{"LD_PRELOAD", LMTRAIN_CLOCK_LIBRARY}, {"LMTRAIN_CLOCK_JUMP", kTwentyYears}};
  return options;
}

std::set<std::string> years_of(const RunDir& run) {
  std::set<std::string> years;
  for (const Json& event : run.events())
    years.insert(event.at("time").get<std::string>().substr(0, 4));
  return years;
}

TEST(Clock, ThatIsSetChangesNothingButTheTimesThatArePrinted) {
  const Json limits = {{"train", {{"max_time", "1h"}}}, {"checkpoint", {{"keep_every", "1h"}}}};
  const Workspace workspace;
  const std::string config = workspace.config(limits);
  const RunDir expected = train(config, workspace / "expected");

  const RunDir run(workspace / "run");
  const std::vector<std::string> command = {"train", config, "--run-dir", run.path(), "--continue"};
  {
    LmtrainProcess process(command, jumping());
    ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":17,"); }));
    process.send(SIGKILL);
    process.wait();
  }
  const ProcessResult resumed = lmtrain(command, jumping());
  ASSERT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, expected), "");
  EXPECT_EQ(run.checkpoint_steps(), expected.checkpoint_steps());
  for (const Json& line : run.metrics()) {
    if (line.contains("elapsed")) {
      EXPECT_LT(line.at("elapsed"), 600);
      EXPECT_GT(line.at("tokens_per_second"), 0);
    }
  }
  EXPECT_GE(years_of(run).size(), 3U) << "the clock did not jump";
}

// The same data are found in the cache, whatever day it is.
TEST(Clock, ThatIsSetMakesNoPreparationAnew) {
  const RunDir run(reference().fresh("another day"));
  const ProcessResult result =
      lmtrain({"train", reference().config, "--run-dir", run.path()}, jumping());
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("prepared before"), std::string::npos) << result;
  EXPECT_EQ(difference(run, reference().run), "");
}

}  // namespace
}  // namespace lmtrain::testing
