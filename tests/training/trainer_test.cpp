// A whole run of a small model: its state at the end, its resumes, and each way to end early.
#include "training/trainer.h"

#include <chrono>
#include <csignal>

#include "base/stop.h"
#include "checkpoint/run_config.h"
#include "training/tiny_run.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::Json;
using testing::TinyRun;

std::vector<int64_t> steps_of(const std::vector<Json>& lines, const char* key) {
  std::vector<int64_t> steps;
  for (const Json& line : lines) {
    if (line.contains(key)) steps.push_back(line.at("step"));
  }
  return steps;
}
std::vector<int64_t> from_to(int64_t first, int64_t last, int64_t by) {
  std::vector<int64_t> steps;
  for (int64_t step = first; step <= last; step += by) steps.push_back(step);
  return steps;
}

TEST(Trainer, ARunHasItsStepsEvaluationsAndCheckpoints) {
  const TinyRun tiny;
  Trainer trainer = tiny.trainer();
  EXPECT_EQ(trainer.state().step, 0);
  EXPECT_TRUE(fs::is_empty(tiny.run.path())) << "written before the run";
  const RunOutcome outcome = trainer.run();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.status + "\n", read_file(tiny.run.status()));
  EXPECT_EQ(tiny.status().at("state"), "done");
  EXPECT_EQ(tiny.status().at("checkpoint"), tiny.run.checkpoint(40).string());

  int64_t targets = 0;
  for (int64_t k = 0; k < 40; ++k) targets += trainer.order().batch(k).num_targets;
  const TrainingState& state = trainer.state();
  EXPECT_EQ(state.step, 40);
  EXPECT_EQ(state.batch, 40);
  EXPECT_EQ(state.tokens, targets);
  EXPECT_EQ(state.eval_step, 40);
  const std::vector<Json> lines = tiny.lines(tiny.run.metrics());
  EXPECT_EQ(steps_of(lines, "loss"), from_to(1, 40, 1));
  EXPECT_EQ(steps_of(lines, "eval_loss"), from_to(0, 40, 10));
  EXPECT_EQ(lines.back().at("eval_loss"), *state.eval_loss);
  EXPECT_EQ(lines.back().at("tokens"), targets);
  EXPECT_EQ(steps_of(tiny.events("save"), "checkpoint"), from_to(5, 40, 5));
  // Checkpoint 40 is as the state at the end, and holds the evaluation that came before it.
  EXPECT_EQ(tiny.state(40).tokens, targets);
  EXPECT_EQ(tiny.state(40).eval_loss, state.eval_loss);
  EXPECT_EQ(tiny.state(40).loss, state.loss);
}

// Its first length would take far longer. It ends in time all the same, its config says how, and
// makes the same run again.
TEST(Trainer, ARunWithATimeFitsItsLengthToIt) {
  TinyRun tiny(Json{{"train", {{"tokens", 4'000'000}, {"steps", nullptr}}},
                    {"eval", {{"every", "10%"}, {"tokens", 2000}}},
                    {"checkpoint", {{"every", "10%"}, {"keep", 100}}}});
  write_run_config(tiny.run, tiny.config, /*step=*/0);
  tiny.config.train.ends_at = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  Trainer trainer = tiny.trainer();
  EXPECT_EQ(trainer.run().exit_code, 0);
  const TrainingState& state = trainer.state();
  EXPECT_LT(state.tokens, 4'000'000);
  EXPECT_GE(state.tokens, state.total.tokens);
  EXPECT_FALSE(tiny.events("replan").empty());
  const Config kept = read_run_config(tiny.run).config;
  EXPECT_EQ(kept.train.tokens, state.total.tokens);
  EXPECT_EQ(kept.train.planned_tokens.at(0), 4'000'000);
  EXPECT_EQ(kept.train.planned_tokens.size(), tiny.events("replan").size());

  TinyRun again;
  again.config = tiny.config;
  again.config.train = kept.train;
  Trainer second(again.config, tiny.data, again.run, std::nullopt);
  EXPECT_EQ(second.run().exit_code, 0);
  EXPECT_EQ(second.state().step, state.step);
  EXPECT_TRUE(again.bytes(state.step) == tiny.bytes(state.step));
}

// The factor is of lr and of the groups' lr; what it makes of them is what the log says.
TEST(Trainer, AFactorMultipliesAllRates) {
  const auto trained = [](double lr, double of_group, double factor) {
    const Json group = {{"pattern", "*norm.weight"}, {"lr", of_group}};
    const TinyRun tiny(
        Json{{"optimizer", {{"lr", lr}, {"lr_factor", factor}, {"groups", Json::array({group})}}}});
    tiny.trainer().run();
    return std::pair(tiny.bytes(40), tiny.lines(tiny.run.metrics()).at(20).at("lr"));
  };
  const auto plain = trained(4e-3, 8e-3, 1);
  EXPECT_TRUE(plain == trained(2e-3, 4e-3, 2));
  EXPECT_FALSE(plain == trained(2e-3, 4e-3, 1));
}

// Sets divide the figures of an evaluation, and change none of the run.
TEST(Trainer, EvaluationsHaveTheFiguresOfSetsAndLengths) {
  const std::string source = LMTRAIN_SOURCE_DIR;
  const TinyRun plain;
  plain.trainer().run();
  const Json sets = {{"lines", source + "/data/sample.jsonl"}};
  const TinyRun tiny(Json{{"data", {{"eval", sets}}}});
  Trainer trainer = tiny.trainer();
  EXPECT_EQ(trainer.run().exit_code, 0);
  EXPECT_TRUE(tiny.bytes(40) == plain.bytes(40));
  const std::vector<Json> expected = plain.lines(plain.run.metrics());
  const std::vector<Json> lines = tiny.lines(tiny.run.metrics());
  ASSERT_EQ(lines.size(), expected.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].contains("eval_loss")) continue;
    for (const auto& [key, value] : expected[i].items()) EXPECT_EQ(lines[i].at(key), value) << key;
    for (const char* figure : {"eval_loss", "eval_perplexity", "eval_bits_per_byte"}) {
      EXPECT_NEAR(lines[i].at(std::string(figure) + "/lines").get<double>(),
                  lines[i].at(figure).get<double>(), 1e-5 * lines[i].at(figure).get<double>());
    }
    EXPECT_TRUE(lines[i].contains("eval_loss/length_64")) << lines[i];
    EXPECT_FALSE(lines[i].contains("eval_loss/length_128")) << lines[i];
  }
}

TEST(Trainer, AResumeEndsLikeTheStraightRun) {
  const TinyRun tiny;
  tiny.trainer().run();
  const std::string whole = tiny.bytes(40);
  const TrainingState end = tiny.state(40);
  // From a step with an evaluation and from one without.
  for (const int64_t step : {20, 25}) {
    Trainer trainer = tiny.trainer(step);
    EXPECT_EQ(trainer.state().step, step);
    EXPECT_EQ(trainer.run().exit_code, 0);
    EXPECT_TRUE(tiny.bytes(40) == whole) << step;
    EXPECT_EQ(tiny.state(40).tokens, end.tokens);
    EXPECT_EQ(tiny.state(40).eval_loss, end.eval_loss);
    const std::vector<Json> lines = tiny.lines(tiny.run.metrics());
    EXPECT_EQ(steps_of(lines, "loss"), from_to(1, 40, 1));
    EXPECT_EQ(steps_of(lines, "eval_loss"), from_to(0, 40, 10));
  }
  EXPECT_EQ(steps_of(tiny.events("resume"), "version"), (std::vector<int64_t>{20, 25}));
  // The comparison shows a difference.
  const TinyRun other(Json{{"seed", 1338}});
  other.trainer().run();
  EXPECT_FALSE(other.bytes(40) == whole);
}

TEST(Trainer, AFinishedRunIsLeftAsItIs) {
  const TinyRun tiny;
  const RunOutcome first = tiny.trainer().run();
  const std::string metrics = read_file(tiny.run.metrics());
  const std::string events = read_file(tiny.run.events());
  const RunOutcome again = tiny.trainer(40).run();
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(again.status, first.status);
  EXPECT_EQ(read_file(tiny.run.metrics()), metrics);
  EXPECT_EQ(read_file(tiny.run.events()), events);
  // Where it could not say so, it does now.
  fs::remove(tiny.run.status());
  EXPECT_EQ(Json::parse(tiny.trainer(40).run().status).at("state"), "done");
}

TEST(Trainer, StoppedByTheClockItGoesOnWhereItWas) {
  const TinyRun straight;
  straight.trainer().run();
  const TinyRun tiny;
  Config config = tiny.config;
  config.train.max_time = 1e-9;  // over before the first step, whatever the machine
  const RunOutcome outcome = Trainer(config, tiny.data, tiny.run, std::nullopt).run();
  EXPECT_EQ(outcome.exit_code, kExitMaxTime);
  EXPECT_EQ(tiny.status().at("state"), "stopped");
  EXPECT_EQ(tiny.events("end").at(0).at("reason"), "max_time");
  EXPECT_EQ(tiny.state(0).step, 0);
  EXPECT_FALSE(tiny.state(0).eval_step) << "evaluated without the time for it";
  tiny.trainer(0).run();
  EXPECT_TRUE(tiny.bytes(40) == straight.bytes(40));
}

TEST(Trainer, PlanningIsEndedByTheClock) {
  const TinyRun tiny;
  Config config = tiny.config;
  config.train.steps = 3'000'000;
  config.train.max_time = 1e-9;
  int exit_code = 0;
  try {
    const Trainer trainer(config, tiny.data, tiny.run, std::nullopt);
  } catch (const StopRequested& stop) {
    exit_code = stop.exit_code();
  }
  EXPECT_EQ(exit_code, kExitMaxTime);
  EXPECT_TRUE(fs::is_empty(tiny.run.path()));
}

// In a process of its own: a signal is noted for good.
TEST(TrainerDeathTest, ASignalEndsItAfterTheStepWithACheckpoint) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run_with_signal = [] {
    install_signal_handlers();
    const TinyRun tiny;
    Trainer trainer = tiny.trainer();
    const auto raise = [](const Batch& batch, double&, const at::Tensor&) {
      if (batch.index == 12) std::raise(SIGUSR1);
    };
    const RunOutcome outcome = trainer.run({.after_backward = raise});
    const bool whole = trainer.state().step == 13 && tiny.state(13).step == 13 &&
                       tiny.status().at("state") == "stopped" &&
                       tiny.events("signal").size() == 1 && tiny.events("end").size() == 1;
    return whole ? outcome.exit_code : 1;
  };
  EXPECT_EXIT(std::_Exit(run_with_signal()), ::testing::ExitedWithCode(128 + SIGUSR1), "");
}

TEST(Trainer, ATrialEndsEvaluatedAndSaved) {
  const TinyRun tiny(Json{{"eval", {{"every", 0}}}, {"checkpoint", {{"every", 0}}}});
  Trainer trial(tiny.config, tiny.data, tiny.run, std::nullopt,
                TrainingDuration{25, TrainingDuration::Unit::kPercent});
  EXPECT_EQ(trial.run().exit_code, 0);
  EXPECT_EQ(trial.state().step, 10);
  EXPECT_EQ(trial.state().eval_step, 10);
  EXPECT_EQ(tiny.run.checkpoint_steps(), (std::vector<int64_t>{10}));
  // The run that goes on from the checkpoint has not evaluated there.
  EXPECT_EQ(tiny.state(10).eval_step, 0);
  const TinyRun straight(Json{{"eval", {{"every", 0}}}, {"checkpoint", {{"every", 0}}}});
  straight.trainer().run();
  tiny.trainer(10).run();
  EXPECT_TRUE(tiny.bytes(40) == straight.bytes(40));
}

TEST(Trainer, ABatchThatIsSpoiledIsSkippedOrGoneBackFrom) {
  for (const char* policy : {"skip", "rollback"}) {
    const TinyRun tiny(Json{{"guard", {{"on_nonfinite", policy}}}});
    Trainer trainer = tiny.trainer();
    const auto spoil = [](const Batch& batch, double& loss, const at::Tensor&) {
      if (batch.index == 17) loss = NAN;
    };
    EXPECT_EQ(trainer.run({.after_backward = spoil}).exit_code, 0);
    EXPECT_EQ(trainer.state().step, 40);
    EXPECT_EQ(trainer.state().batch, 41);
    EXPECT_EQ(tiny.events(policy).size(), 1U);
    EXPECT_EQ(trainer.state().guard.skips(17), std::string(policy) == "rollback");
    EXPECT_EQ(steps_of(tiny.lines(tiny.run.metrics()), "loss"), from_to(1, 40, 1));
  }
}

TEST(Trainer, AnErrorIsToldAndThrownOn) {
  const TinyRun tiny;
  Trainer trainer = tiny.trainer();
  const auto fail = [](const Batch& batch, double&, const at::Tensor&) {
    if (batch.index == 12) throw Error(ErrorKind::kData, "the text is gone");
  };
  EXPECT_EQ(error_of(ErrorKind::kData, [&] { trainer.run({.after_backward = fail}); }),
            "the text is gone");
  EXPECT_EQ(trainer.failed_status() + "\n", read_file(tiny.run.status()));
  EXPECT_EQ(tiny.status().at("state"), "failed");
  EXPECT_EQ(tiny.status().at("exit_code"), 3);
  EXPECT_EQ(tiny.status().at("step"), 12);
  EXPECT_EQ(tiny.events("end").at(0).at("reason"), "the text is gone");
  // The checkpoint that was being written is there.
  EXPECT_EQ(tiny.state(10).step, 10);
}

}  // namespace
}  // namespace lmtrain
