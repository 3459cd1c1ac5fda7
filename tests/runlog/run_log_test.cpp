// What is said about a run, to its files and to the person in front of it.
#include "runlog/run_log.h"

#include "e2e/small_disk.h"
#include "training/tiny_run.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::Json;
using testing::SmallDisk;
using testing::TinyRun;

const Json kNoChanges = Json::array();

// A log in the place of a trainer's, told of steps that nobody has made.
class RunLogTest : public ::testing::Test {
 protected:
  RunClock clock() const {
    return run_clock(tiny.config, trainer.order())
        .after(static_cast<double>(state.step), static_cast<double>(state.tokens), state.elapsed);
  }
  void step(double loss, bool keep_line = true) {
    const RunClock before = clock();
    ++state.step;
    ++state.batch;
    state.tokens += 128;
    state.elapsed += 0.5;
    state.loss = loss;
    log.update(state, {loss, 1.5, 1e-3, 64, 128, 0.5},
               {trainer.order(), DueRules(), before, clock()}, keep_line);
  }
  void evaluation(double loss) {
    state.eval_loss = loss;
    state.eval_step = state.step;
    log.evaluated(state, {.all = {.nats = 100 * loss, .tokens = 100, .bytes = 300, .documents = 2}},
                  {});
  }
  // What `action` prints.
  template <class Action>
  static std::string said(Action&& action) {
    ::testing::internal::CaptureStderr();
    action();
    return ::testing::internal::GetCapturedStderr();
  }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  TinyRun tiny;
  Trainer trainer = tiny.trainer();  // for its order of data
  RunLog log{tiny.config, tiny.run, 2000, std::chrono::steady_clock::now(), 1};
  TrainingState state;
};

TEST_F(RunLogTest, WritesNothingBeforeItBegins) {
  EXPECT_TRUE(fs::is_empty(tiny.run.path()));
  log.begin(state);
  step(5);
  EXPECT_FALSE(fs::is_empty(tiny.run.path()));
}

TEST_F(RunLogTest, AnUpdateIsALineOfFigures) {
  log.begin(state);
  const std::string line = said([&] { step(5.25); });
  EXPECT_TRUE(contains(line, "step 1/40  2.5%  loss 5.2500  lr 1.00e-03  length 64  256 tokens/s"))
      << line;
  EXPECT_EQ(said([&] { step(5, /*keep_line=*/false); }), "") << "no terminal";
  const std::vector<Json> lines = tiny.lines(tiny.run.metrics());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("step"), 1);
  EXPECT_EQ(lines[0].at("tokens"), 128);
  EXPECT_EQ(lines[0].at("loss"), 5.25);
  EXPECT_EQ(lines[0].at("grad_norm"), 1.5);
  EXPECT_EQ(lines[0].at("seq_len"), 64);
  EXPECT_EQ(lines[0].at("tokens_per_second"), 256);
  EXPECT_EQ(lines[0].at("elapsed"), 0.5);
  EXPECT_EQ(lines[1].at("step"), 2);
}

TEST_F(RunLogTest, AnEvaluationIsALineAndTheStatus) {
  log.begin(state);
  step(5);
  EXPECT_TRUE(contains(said([&] { evaluation(3); }), "step 1  held-out loss 3.0000"));
  EXPECT_EQ(tiny.lines(tiny.run.metrics()).back().at("eval_loss"), 3);
  EXPECT_EQ(tiny.status().at("state"), "running");
  EXPECT_EQ(tiny.status().at("eval_loss"), 3);
}

TEST_F(RunLogTest, TheHeldOutLossIsComparedWithItsForecast) {
  Config config = tiny.config;
  config.forecast = "/forecast";
  write_expected_curve(expected_curve_file(tiny.run.path()),
                       {"/forecast", {{128, 5, 4.8, 5.2}, {12800, 4, 3.8, 4.2}}});
  RunLog compared(config, tiny.run, 2000, std::chrono::steady_clock::now(), 1);
  compared.begin(state);
  const auto at = [&](int64_t tokens, double loss) {
    state.tokens = tokens;
    return said([&] {
      compared.evaluated(
          state, {.all = {.nats = 100 * loss, .tokens = 100, .bytes = 300, .documents = 2}}, {});
    });
  };
  EXPECT_FALSE(contains(at(256, 9), "forecast"));  // too early
  EXPECT_TRUE(contains(at(1280, 4.6), "at 10 %, 2.2 % above the forecast of 4.5000"));
  EXPECT_FALSE(contains(at(2560, 6), "forecast"));  // too early to warn
  const std::string warning = at(3200, 6);
  EXPECT_TRUE(contains(warning, "warning") && contains(warning, "above the forecast")) << warning;
  EXPECT_FALSE(contains(at(3300, 6), "forecast"));  // it was said
  EXPECT_FALSE(contains(at(6400, 4.2), "forecast"));
  EXPECT_TRUE(contains(at(12800, 3.9), "2.5 % below the forecast of 4.0000 (3.8000 to 4.2000)"));
  std::vector<bool> within;
  for (const Json& line : tiny.lines(tiny.run.events()))
    if (line.at("event") == "forecast") within.push_back(line.at("within"));
  EXPECT_EQ(within, (std::vector<bool>{true, false, true}));
}

TEST_F(RunLogTest, TheFileForPrometheusHasTheNewestFigures) {
  Config config = tiny.config;
  config.log.prometheus = (tiny.run.path() / "own.prom").string();
  config.run_dir = "/somewhere/own";
  RunLog with_file{config, tiny.run, 2000, std::chrono::steady_clock::now(), 1};
  const auto figure = [&](const std::string& name) {
    const std::string text = read_file(*config.log.prometheus);
    const size_t at = text.find("\nlmtrain_" + name + "{run=\"own\",host=");
    if (at == std::string::npos) return std::string("none");
    const size_t value = text.find("} ", at) + 2;
    return text.substr(value, text.find('\n', value) - value);
  };
  with_file.begin(state);
  EXPECT_EQ(figure("step"), "0");
  EXPECT_EQ(figure("loss"), "none");
  const RunClock before = clock();
  state.step = 1;
  state.tokens = 128;
  with_file.update(state, {5.25, 1.5, 1e-3, 64, 128, 0.5},
                   {trainer.order(), DueRules(), before, clock()}, /*keep_line=*/false);
  EXPECT_EQ(figure("step"), "1");
  EXPECT_EQ(figure("loss"), "5.25");
  EXPECT_EQ(figure("tokens_per_second"), "256");
  EXPECT_EQ(figure("eval_loss"), "none");
  EXPECT_NE(figure("last_step_timestamp_seconds"), "none");
  with_file.evaluated(state, {.all = {.nats = 300, .tokens = 100, .bytes = 300, .documents = 2}},
                      {});
  EXPECT_EQ(figure("eval_loss"), "3");
  EXPECT_EQ(figure("loss"), "5.25");
}

TEST_F(RunLogTest, BeginningAgainGoesBackToTheState) {
  log.begin(state);
  step(5);
  const TrainingState back = state;
  step(4);
  step(3);
  log.begin(back);
  const std::vector<Json> lines = tiny.lines(tiny.run.metrics());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].at("step"), 1);
}

TEST_F(RunLogTest, StartAndResumeAreEvents) {
  log.begin(state);
  log.started(state, /*resumed=*/false, "it had reached step 9", kNoChanges);
  const Json start = tiny.events("start").at(0);
  EXPECT_EQ(start.at("reason"), "it had reached step 9");
  EXPECT_EQ(start.at("device"), "cpu");
  EXPECT_EQ(start.at("precision"), "fp32");
  EXPECT_FALSE(start.contains("changed"));
  EXPECT_EQ(tiny.status().at("state"), "running");
  state.step = 7;
  const Json changes = {{{"key", "log.every"}}};
  EXPECT_TRUE(contains(said([&] { log.started(state, /*resumed=*/true, "", changes); }),
                       "resuming after step 7"));
  EXPECT_EQ(tiny.events("resume").at(0).at("changed"), changes);
  EXPECT_TRUE(
      contains(said([&] { log.started(state, /*resumed=*/true, "chosen anew: why", kNoChanges); }),
               "chosen anew: why; its bits are others from here on"));
  EXPECT_EQ(tiny.events("resume").at(1).at("reason"), "chosen anew: why");
}

TEST_F(RunLogTest, RefusedBatchesAreEventsAndWarnings) {
  log.begin(state);
  RefusedBatch refused;
  refused.batch = 17;
  refused.loss = NAN;
  refused.grad_norm = 2;
  const std::string skipped = said([&] { log.skipped(state, refused, "not finite"); });
  EXPECT_TRUE(contains(
      skipped, "warning: batch 17 skipped: not finite (loss not finite, gradient norm 2.0)"))
      << skipped;
  EXPECT_EQ(tiny.events("skip").at(0).at("skipped_batch"), 17);
  log.spike(state, refused, "a spike");
  EXPECT_EQ(tiny.events("spike").at(0).at("reason"), "a spike");
  state.guard.skipped_batches = {3, 17};
  state.step = 15;
  log.rolled_back(state, refused, "not finite", 16, fs::path("/run/step_15"));
  log.rolled_back(state, refused, "not finite", 16, std::nullopt);
  const std::vector<Json> rollbacks = tiny.events("rollback");
  ASSERT_EQ(rollbacks.size(), 2U);
  EXPECT_EQ(rollbacks[0].at("step"), 15);
  EXPECT_EQ(rollbacks[0].at("from_step"), 16);
  EXPECT_EQ(rollbacks[0].at("checkpoint"), "/run/step_15");
  EXPECT_EQ(rollbacks[0].at("passed_over"), Json::array({3, 17}));
  EXPECT_TRUE(rollbacks[1].at("checkpoint").is_null());
}

TEST_F(RunLogTest, ASaveIsAnEventAndAFailedOneAWarningWhereTheRunGoesOn) {
  log.begin(state);
  state.step = 5;
  log.saved(state, 0.25);
  EXPECT_EQ(tiny.events("save").at(0).at("checkpoint"), tiny.run.checkpoint(5).string());
  EXPECT_EQ(tiny.events("save").at(0).at("seconds"), 0.25);
  EXPECT_EQ(said([&] { log.save_failed(state, "disk full", /*goes_on=*/false); }), "");
  EXPECT_TRUE(contains(said([&] { log.save_failed(state, "disk full", /*goes_on=*/true); }),
                       "checkpoint of step 5 not saved, the run goes on: disk full"));
  EXPECT_EQ(tiny.events("save_failed").size(), 2U);
}

TEST_F(RunLogTest, TheSummaryHasTheLastAndTheBestEvaluation) {
  log.begin(state);
  step(5);
  evaluation(3);
  step(4);
  evaluation(3.5);
  const std::string summary = said([&] { log.summarize(state, 2, Stop::kFinished); });
  EXPECT_TRUE(contains(summary, "held-out 3.5000 (best 3.0000 at step 1)")) << summary;
  EXPECT_TRUE(contains(summary, tiny.run.checkpoint(2).string())) << summary;
  EXPECT_TRUE(contains(summary, "lmtrain eval")) << summary;
  EXPECT_FALSE(contains(said([&] { log.summarize(state, 2, Stop::kSignal); }), "lmtrain eval"));
}

TEST_F(RunLogTest, TheSummaryNamesTheBestCheckpointThatIsThere) {
  tiny.config.checkpoint.keep_best = 1;
  RunLog keeps_best(tiny.config, tiny.run, 2000, std::chrono::steady_clock::now(), 1);
  keeps_best.begin(state);
  for (const double loss : {3.5, 3.0, 2.5, 4.0}) {
    ++state.step;
    keeps_best.evaluated(state, Evaluation{.all = {.nats = loss, .tokens = 1, .bytes = 1}}, {});
  }
  const auto summary = [&] { return said([&] { keeps_best.summarize(state, 4, Stop::kNone); }); };
  EXPECT_FALSE(contains(summary(), "best  ")) << summary();
  fs::create_directories(tiny.run.checkpoint(2));
  EXPECT_TRUE(
      contains(summary(), "best       step 2, held-out 3.0000, " + tiny.run.checkpoint(2).string()))
      << summary();
  const std::string done = said([&] { keeps_best.summarize(state, 4, Stop::kFinished); });
  EXPECT_TRUE(contains(done,
                       "next       step 2 is the best (held-out 3.0000): these take it, and "
                       "with --last step 4 (4.0000)\n           lmtrain eval "))
      << done;
  const std::string again = said([&] { keeps_best.note_finished(state, Stop::kFinished); });
  EXPECT_TRUE(contains(again, "step 2 is the best")) << again;
}

TEST_F(RunLogTest, AnEarlyStopSaysWhyAndHowToTrainOn) {
  tiny.config.eval.early_stop = EarlyStopConfig{.patience = 2, .min_delta = 0.01};
  RunLog early(tiny.config, tiny.run, 2000, std::chrono::steady_clock::now(), 1);
  state.step = 40;
  state.evaluations = {.lowest = EvaluatedStep{20, 3.25}, .without_gain = 2};
  const std::string why =
      "the last 2 evaluations did not lower the held-out loss by more than 0.01 "
      "(eval.early_stop); the lowest is 3.2500 at step 20";
  const std::string how = "--set eval.early_stop=null";
  const std::string summary = said([&] { early.summarize(state, 40, Stop::kEarlyStop); });
  EXPECT_TRUE(contains(summary, "early stop " + why)) << summary;
  EXPECT_TRUE(contains(summary, how)) << summary;
  const std::string before = said([&] { early.note_finished(state, Stop::kEarlyStop); });
  EXPECT_TRUE(contains(before, "ended early: " + why)) << before;
  EXPECT_TRUE(contains(before, how)) << before;
  EXPECT_FALSE(contains(said([&] { early.note_finished(state, Stop::kFinished); }), how));
}

TEST_F(RunLogTest, TheEndSaysHowToGoOnWhereTheRunIsNotDone) {
  log.begin(state);
  step(5);
  log.add_wait(0.125);
  const auto ended = [&](const RunEnd& end, bool is_part = false) {
    return said([&] { log.ended(state, end, is_part); });
  };
  EXPECT_TRUE(contains(ended({.reason = "max_time", .exit_code = 75}),
                       "stopped by max_time after step 1; go on with: lmtrain resume"));
  EXPECT_EQ(tiny.status().at("state"), "stopped");
  EXPECT_EQ(tiny.status().at("exit_code"), 75);
  EXPECT_EQ(ended({.reason = "max_time", .exit_code = 75}, /*is_part=*/true), "");
  EXPECT_EQ(ended({.done = true, .reason = "done"}), "");
  EXPECT_EQ(tiny.status().at("state"), "done");
  const std::vector<Json> ends = tiny.events("end");
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0].at("trained_seconds"), 0.5);
  EXPECT_EQ(ends[0].at("waited_seconds"), 0.125);
  EXPECT_GT(ends[0].at("peak_memory"), 1 << 20);
}

TEST_F(RunLogTest, ItIsDoneOnlyAtThisStepInThisFolder) {
  log.begin(state);
  step(5);
  EXPECT_EQ(log.done_status(state), "") << "no status.json";
  fs::create_directories(tiny.run.checkpoint(1));
  log.running(state);
  EXPECT_EQ(log.done_status(state), "");
  const std::string status = log.ended(state, {.done = true, .reason = "done"}, false);
  EXPECT_EQ(log.done_status(state), status);
  EXPECT_EQ(log.finished_before(state, Stop::kFinished, status, kNoChanges), status);
  EXPECT_TRUE(tiny.events("resume").empty());
  TrainingState longer = state;
  longer.step = 2;
  EXPECT_EQ(log.done_status(longer), "");
  // In a copy it names the folder that it was copied from.
  const RunFolder copy(tiny.run.path().parent_path() / "copy");
  fs::copy(tiny.run.path(), copy.path(), fs::copy_options::recursive);
  const RunLog other(tiny.config, copy, 2000, std::chrono::steady_clock::now(), 1);
  EXPECT_EQ(other.done_status(state), "");
  const Json changes = {{{"key", "log.every"}}};
  const Json written = Json::parse(other.finished_before(state, Stop::kFinished, "", changes));
  EXPECT_EQ(written.at("state"), "done");
  EXPECT_EQ(written.at("checkpoint"), copy.checkpoint(1).string());
}

TEST_F(RunLogTest, AnErrorIsToldAsFarAsTheDiskTakesIt) {
  const Failure no_room{ErrorKind::kIo, "no room", "no room"};
  const Failure nan{ErrorKind::kNumeric, "NaN", "NaN"};
  // The settings that a run fails with at once are recorded too.
  const Json changes = {{{"key", "log.every"}}};
  const Json early = Json::parse(log.failed(state, no_room, changes));
  EXPECT_EQ(early.at("state"), "failed");
  EXPECT_EQ(early.at("exit_code"), 5);
  EXPECT_EQ(tiny.events("resume").at(0).at("changed"), changes);
  EXPECT_EQ(tiny.events("end").at(0).at("reason"), "no room");
  log.begin(state);
  log.started(state, /*resumed=*/false, "", kNoChanges);
  const Json lost = Json::parse(log.failed(state, nan, changes));
  EXPECT_EQ(lost.at("state"), "diverged");
  EXPECT_EQ(lost.at("exit_code"), 4);
  EXPECT_EQ(tiny.events("end").at(1).at("reason"), "NaN");
  EXPECT_EQ(tiny.events("resume").size(), 1U);
  fs::remove_all(tiny.run.path());
  EXPECT_EQ(log.failed(state, nan, kNoChanges), "");
}

// One that is only copied has said before that it is done; an early stop is no plain end.
TEST_F(RunLogTest, AFinishedRunSaysSoOnce) {
  write_status(tiny.run, "done", state, 0);
  EXPECT_NE(log.finished_before(state, Stop::kFinished, "", kNoChanges), "");
  EXPECT_FALSE(fs::exists(tiny.run.events()));
  fs::remove(tiny.run.status());
  log.finished_before(state, Stop::kEarlyStop, "", kNoChanges);
  EXPECT_EQ(tiny.events("end").at(0).at("reason"), "early stop");
}

TEST_F(RunLogTest, SaysWhereTheTimeToTheFirstStepWent) {
  log.begin(state);
  log.first_step(state, {{"program", 0.12345}, {"step", 1.5}});
  log.first_step(state, {});
  const std::vector<Json> events = tiny.events("first_step");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].at("seconds"), 1.623);
  EXPECT_EQ(events[0].at("phases"), (Json{{"program", 0.123}, {"step", 1.5}}));
}

// The other processes of a run have a log of their own, which says and writes nothing.
TEST_F(RunLogTest, IsQuietOnOtherRanks) {
  const RefusedBatch refused;
  const Failure failure{ErrorKind::kIo, "no room", "no room"};
  const Json changes = {{{"key", "log.every"}}};
  const auto tell_everything = [&](RunLog& told) {
    EXPECT_EQ(told.done_status(state), "");
    told.note_finished(state, Stop::kFinished);
    told.put_metrics_aside();
    told.begin(state);
    told.started(state, /*resumed=*/true, "why", changes);
    told.first_step(state, {{"program", 0.5}, {"step", 1}});
    told.begin_lap();
    told.add_wait(1);
    told.update(state, {5, 1.5, 1e-3, 64, 128, 0.5},
                {trainer.order(), DueRules(), clock(), clock()}, /*keep_line=*/true);
    told.evaluated(state, {.all = {.nats = 300, .tokens = 100, .bytes = 300, .documents = 2}}, {});
    told.sampled(state, {SampledText{.prompt = "once", .text = "upon", .tokens = 1}});
    told.add_save();
    told.reduced_micro_batch(state, {.length = 64, .rows_before = 2, .rows = 1, .reason = "why"});
    told.spike(state, refused, "why");
    told.skipped(state, refused, "why");
    told.rolled_back(state, refused, "why", 3, std::nullopt);
    told.no_held_out_text();
    told.eval_loss_not_finite(state);
    told.signalled(state, 15);
    told.sync();
    told.saved(state, 1);
    told.save_failed(state, "why", /*goes_on=*/true);
    told.running(state);
    told.refresh_status(state);
    told.summarize(state, std::nullopt, Stop::kFinished);
    EXPECT_EQ(told.ended(state, {.reason = "max_time", .exit_code = 75}, false).empty(),
              &told != &log);
    EXPECT_EQ(told.failed(state, failure, changes).empty(), &told != &log);
    EXPECT_EQ(told.finished_before(state, Stop::kFinished, "", changes).empty(), &told != &log);
  };
  RunLog second{tiny.config, tiny.run, 2000, std::chrono::steady_clock::now(), 2, /*rank=*/1};
  EXPECT_EQ(said([&] { tell_everything(second); }), "");
  EXPECT_TRUE(fs::is_empty(tiny.run.path()));
  EXPECT_NE(said([&] { tell_everything(log); }), "");
  EXPECT_FALSE(fs::is_empty(tiny.run.path()));
}

// A run that goes back while its disk is full goes on, and its events come once there is room.
TEST(RunLog, BeginsAgainOnAFullDiskWhereTheRunOutlivesOne) {
  const SmallDisk disk("1m");
  if (!disk.mounted()) GTEST_SKIP() << "no file system can be mounted here";
  const TinyRun tiny(Json{{"checkpoint", {{"on_save_error", "continue"}}}});
  const RunFolder run(disk / "run");
  fs::create_directories(run.path());
  RunLog log{tiny.config, run, 2000, std::chrono::steady_clock::now(), 1};
  const TrainingState state;
  log.begin(state);
  disk.fill("filler");
  log.signalled(state, 15);
  log.begin(state);
  fs::remove(disk / "filler");
  log.signalled(state, 2);
  const std::vector<Json> events = tiny.lines(run.events());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].at("reason"), "signal 15");
}

}  // namespace
}  // namespace lmtrain
