// A run stopped by a signal or by max_time saves, says how to go on, and ends after `resume`
// exactly as one that was never stopped.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

// Evaluation of some tens of milliseconds, so that a signal can arrive in the middle of one.
Json long_evaluation() {
  return Json{{"data",
               {{"train", {"data/sample"}},
                {"eval", {"data/sample", "data/sample.jsonl", "tests/reference/eval/documents"}}}}};
}

struct Moment {
  std::string name;
  int signal = 0;
  std::function<bool(const RunDir&)> reached;
  // Whether the stopped run shows that the signal came at the intended moment.
  std::function<bool(const RunDir&)> hit;
};

bool pending_at(const RunDir& run, int64_t step) {
  return run.checkpoint_steps().back() == step && run.state(step).at("eval_pending");
}

std::vector<Moment> moments() {
  const auto started = [](const RunDir& run) {
    return read_text(run.folder() / "events.jsonl").ends_with("\n");
  };
  const auto after = [](int64_t step) {
    return [step](const RunDir& run) {
      return run.has_metrics_line("{\"step\":" + std::to_string(step) + ",");
    };
  };
  const auto pending = [](int64_t step) {
    return [step](const RunDir& run) { return pending_at(run, step); };
  };
  const auto any = [](const RunDir&) { return true; };
  return {{"FirstEvaluation", SIGTERM, started, pending(0)},
          {"BeforeStep1", SIGTERM, after(0),
           [](const RunDir& run) { return run.checkpoint_steps().back() <= 3; }},
          {"EarlyStep", SIGINT, after(2), any},
          {"MiddleStep", SIGTERM, after(17), any},
          {"UserSignal", SIGUSR1, after(25), any},
          {"HangUp", SIGHUP, after(22), any},
          {"Evaluation", SIGTERM, after(20), pending(20)},
          {"LastEvaluation", SIGTERM, after(40), pending(40)}};
}

std::ostream& operator<<(std::ostream& out, const Moment& moment) { return out << moment.name; }

class Stop : public ::testing::TestWithParam<Moment> {};

TEST_P(Stop, ThenResumeIsBitExact) {
  const Moment& moment = GetParam();
  const Reference& expected = reference(long_evaluation());
  bool hit = false;
  constexpr int kAttempts = 10;  // the moment may pass before this process notices
  for (int attempt = 0; attempt < kAttempts && !hit; ++attempt) {
    const RunDir run(expected.fresh(moment.name));
    LmtrainProcess process({"train", expected.config, "--run-dir", run.path()});
    if (!process.wait_until([&] { return moment.reached(run); })) continue;
    process.send(moment.signal);
    const ProcessResult stopped = process.wait();
    if (stopped.exit_code == 0) continue;  // it had finished
    ASSERT_EQ(stopped.exit_code, 128 + moment.signal) << stopped;
    EXPECT_EQ(run.status().at("state"), "stopped");
    EXPECT_EQ(run.status().at("exit_code"), 128 + moment.signal);
    EXPECT_EQ(Json::parse(stopped.out), run.status());
    EXPECT_NE(stopped.err.find("lmtrain resume " + run.path()), std::string::npos) << stopped.err;
    EXPECT_EQ(run.events("signal").size(), 1U);
    hit = moment.hit(run);

    const ProcessResult resumed = lmtrain({"resume", run.path()});
    ASSERT_EQ(resumed.exit_code, 0) << resumed;
    EXPECT_EQ(run.status().at("state"), "done");
    EXPECT_EQ(difference(run, expected.run), "");
  }
  EXPECT_TRUE(hit) << "no attempt hit the moment";
}

INSTANTIATE_TEST_SUITE_P(Moments, Stop, ::testing::ValuesIn(moments()),
                         [](const auto& test) { return test.param.name; });

// An interrupted evaluation is made again after every resume from that checkpoint, and its line is
// there once.
TEST(Stop, InterruptedEvaluationIsMadeAgain) {
  const Reference& expected = reference(long_evaluation());
  bool hit = false;
  for (int attempt = 0; attempt < 10 && !hit; ++attempt) {
    const RunDir run(expected.fresh("again"));
    LmtrainProcess process(
        {"train", expected.config, "--run-dir", run.path(), "--set", "checkpoint.every=0"});
    if (!process.wait_until([&] { return run.has_metrics_line("{\"step\":20,"); })) continue;
    process.send(SIGTERM);
    if (process.wait().exit_code == 0 || !pending_at(run, 20)) continue;
    hit = true;
    for (const char* step : {"{\"step\":22,", "{\"step\":25,"}) {
      LmtrainProcess resumed({"resume", run.path()});
      ASSERT_TRUE(resumed.wait_until([&] { return run.has_metrics_line(step); }));
      resumed.send(SIGKILL);
      resumed.wait();
    }
    const ProcessResult finished = lmtrain({"resume", run.path()});
    ASSERT_EQ(finished.exit_code, 0) << finished;
    EXPECT_EQ(difference(run, expected.run), "");
  }
  EXPECT_TRUE(hit) << "no attempt hit the evaluation";
}

// While it starts up there may be no handler yet and no run folder: then the process just ends, and
// the same command with --continue begins. What it leaves is never in the way.
TEST(Stop, DuringStartupThenContinue) {
  const Reference& expected = reference(long_evaluation());
  const RunDir run(expected.fresh("startup"));
  const std::vector<std::string> command = {"train", expected.config, "--run-dir", run.path(),
                                            "--continue"};
  for (const double delay : {2, 30, 60, 100, 150, 200, 300, 400}) {
    LmtrainProcess process(command);
    sleep_ms(delay);
    process.send(SIGTERM);
    const ProcessResult stopped = process.wait();
    if (stopped.exit_code == 0) break;
    EXPECT_EQ(stopped.shell_code(), 128 + SIGTERM) << stopped;
  }
  const ProcessResult finished = lmtrain(command);
  ASSERT_EQ(finished.exit_code, 0) << finished;
  EXPECT_EQ(difference(run, expected.run), "");
}

// Steps of about a second: the first signal waits for the end of the step, the second does not.
TEST(Stop, SecondSignalEndsAtOnce) {
  const Workspace workspace;
  const std::string config = workspace.config({{"batch", {{"tokens", 262144}}}});
  const RunDir run(workspace / "run");
  LmtrainProcess process({"train", config, "--run-dir", run.path()});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":0,"); }));
  sleep_ms(50);
  process.send(SIGTERM);
  sleep_ms(50);
  process.send(SIGINT);
  const ProcessResult stopped = process.wait();
  EXPECT_EQ(stopped.exit_code, 128 + SIGINT) << stopped;
  EXPECT_EQ(run.status().at("state"), "running");
  EXPECT_TRUE(run.checkpoint_steps().empty());
}

TEST(Stop, MaxTimeThenResumeIsBitExact) {
  const Json changes = {{"batch", {{"tokens", 4096}}}, {"train", {{"steps", 60}}}};
  const Reference& expected = reference(changes);
  // Enough for the start and some steps, and not for all, on a slow machine too.
  double seconds = 0;
  for (const Json& line : expected.run.metrics())
    seconds = std::max(seconds, line.value("elapsed", 0.0));
  const auto max_time = [&] { return "train.max_time=\"" + std::to_string(seconds) + "s\""; };
  seconds = std::max(0.2, seconds / 3);
  RunDir run(expected.fresh("max_time"));
  ProcessResult result =
      lmtrain({"train", expected.config, "--run-dir", run.path(), "--set", max_time()});
  // The machine may be faster now than when the reference was made.
  for (int attempt = 0; attempt < 8 && result.exit_code == 0; ++attempt) {
    seconds /= 2;
    run = RunDir(expected.fresh("max_time"));
    result = lmtrain({"train", expected.config, "--run-dir", run.path(), "--set", max_time()});
  }
  ASSERT_EQ(result.exit_code, 75) << result;
  EXPECT_EQ(run.status().at("state"), "stopped");
  EXPECT_EQ(run.status().at("exit_code"), 75);
  EXPECT_EQ(run.events("end").back().at("reason"), "max_time");
  // Every resume has the time anew, and gets further if it is enough for a step.
  const int64_t step = run.status().at("step");
  result = lmtrain({"resume", run.path()});
  for (int attempt = 0; attempt < 8 && run.status().at("step") == step; ++attempt) {
    seconds *= 2;
    result = lmtrain({"resume", run.path(), "--set", max_time()});
  }
  EXPECT_GT(run.status().at("step"), step) << result;
  if (result.exit_code != 0) {
    ASSERT_EQ(result.exit_code, 75) << result;
    result = lmtrain({"resume", run.path(), "--set", "train.max_time=null"});
    ASSERT_EQ(result.exit_code, 0) << result;
  }
  EXPECT_EQ(difference(run, expected.run), "");
}

// The limit is over long before the batches of the run are planned.
TEST(Stop, MaxTimeHoldsWhileBatchesArePlanned) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  const ProcessResult result =
      lmtrain({"train", workspace.config({{"train", {{"steps", 30'000'000}}}}), "--run-dir",
               run.path(), "--set", "train.max_time=\"0.001s\""});
  EXPECT_EQ(result.exit_code, 75) << result;
  EXPECT_NE(result.err.find("before the batches were planned"), std::string::npos) << result;
  EXPECT_FALSE(std::filesystem::exists(run.folder())) << "a run without a step was begun";
}

}  // namespace
}  // namespace lmtrain::testing
