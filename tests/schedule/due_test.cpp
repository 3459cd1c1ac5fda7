// Which steps of a run have a checkpoint, and which of these stay.
#include "schedule/due.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace lmtrain {
namespace {

using Unit = TrainingDuration::Unit;
using Steps = std::vector<int>;

// A run of 60 steps of 100 tokens; an epoch is 1500 tokens.
struct Saves {
  Steps due, kept;
  double estimate = 0;  // of the whole run
};
Saves saves_of(const Config& config) {
  const bool counts_steps = config.train.steps.has_value();
  const RunClock run{.total = counts_steps ? 60.0 : 6000.0,
                     .counts_steps = counts_steps,
                     .tokens_per_step = 100,
                     .tokens_per_epoch = 1500};
  const LrSchedule rates(config.lr_schedule, 1.0, run);
  const SaveSchedule schedule(config, rates);
  const auto at = [&](int step) { return run.after(step, 100.0 * step, 2.0 * step); };
  Saves saves;
  saves.estimate = schedule.estimate(at(0), at(60));
  for (int step = 1; step <= 60; ++step) {
    if (schedule.due(at(step - 1), at(step))) saves.due.push_back(step);
    if (schedule.kept(at(step - 1), at(step))) saves.kept.push_back(step);
  }
  return saves;
}

Config config_with(const TrainingDuration& every, std::optional<TrainingDuration> keep_every) {
  Config config;
  config.train.tokens.reset();
  config.train.steps = 60;
  config.checkpoint.every = every;
  config.checkpoint.keep_every = keep_every;
  return config;
}

TEST(SaveSchedule, WithoutKeepEveryNoneIsKept) {
  const Saves saves = saves_of(config_with({20, Unit::kSteps}, std::nullopt));
  EXPECT_EQ(saves.due, (Steps{20, 40, 60}));
  EXPECT_EQ(saves.kept, Steps{});
}

// Those that are kept are saved, whether or not checkpoint.every falls on them.
TEST(SaveSchedule, KeepEveryInAnyUnit) {
  const Saves steps = saves_of(config_with({20, Unit::kSteps}, TrainingDuration{15, Unit::kSteps}));
  EXPECT_EQ(steps.due, (Steps{15, 20, 30, 40, 45, 60}));
  EXPECT_EQ(steps.kept, (Steps{15, 30, 45, 60}));
  EXPECT_EQ(steps.estimate, 4);
  EXPECT_EQ(saves_of(config_with({0, Unit::kSteps}, TrainingDuration{1, Unit::kEpochs})).due,
            (Steps{15, 30, 45, 60}));
  EXPECT_EQ(saves_of(config_with({0, Unit::kSteps}, TrainingDuration{50, Unit::kPercent})).kept,
            (Steps{30, 60}));
  EXPECT_EQ(saves_of(config_with({0, Unit::kSteps}, TrainingDuration{0, Unit::kSteps})).kept,
            Steps{});
}

TEST(SaveSchedule, TheLastOfThePlateauIsKept) {
  Config config = config_with({25, Unit::kSteps}, std::nullopt);
  config.lr_schedule.type = LrScheduleType::kWsd;  // the last 20 % decay
  const Saves saves = saves_of(config);
  EXPECT_EQ(saves.due, (Steps{25, 48, 50}));
  EXPECT_EQ(saves.kept, Steps{48});
  EXPECT_EQ(saves.estimate, 3);
  config.train.steps.reset();
  config.train.tokens = 6000;
  config.lr_schedule.decay = {1150, Unit::kTokens};  // begins inside step 49
  EXPECT_EQ(saves_of(config).kept, Steps{49});
  config.lr_schedule.type = LrScheduleType::kCosine;
  EXPECT_EQ(saves_of(config).kept, Steps{});
}

}  // namespace

// Which steps of a run log, evaluate, save and keep, and what ends it.

namespace {

using Steps = std::vector<int>;

// A run of 20 steps of 100 tokens, two seconds each.
const RunClock kRun{.total = 20, .counts_steps = true, .tokens_per_step = 100};

RunMoment after_steps(int steps) {
  RunMoment moment;
  moment.clock = kRun.after(steps, 100.0 * steps, 2.0 * steps);
  moment.next_batch = steps;
  return moment;
}

DueRules rules_with(const TrainingDuration& save, std::optional<TrainingDuration> keep) {
  Config config;
  config.train.tokens.reset();
  config.train.steps = 20;
  config.checkpoint.every = save;
  config.checkpoint.keep_every = keep;
  DueRules rules;
  rules.log = Cadence({3, Unit::kSteps});
  rules.evaluate = Cadence({5, Unit::kSteps});
  rules.save = SaveSchedule(config, LrSchedule(config.lr_schedule, 1.0, kRun));
  return rules;
}

DueRules rules() { return rules_with({4, Unit::kSteps}, TrainingDuration{10, Unit::kSteps}); }

Due due_on(const DueRules& rules, int step) {
  return due_after(rules, after_steps(step - 1).clock, after_steps(step));
}

TEST(Due, EachThingInItsOwnTime) {
  Steps log, evaluate, keep, save;
  for (int step = 1; step <= 20; ++step) {
    const Due due = due_on(rules(), step);
    if (due.log) log.push_back(step);
    if (due.evaluate) evaluate.push_back(step);
    if (due.keep) keep.push_back(step);
    if (due.save) save.push_back(step);
    EXPECT_EQ(due.stop, step == 20 ? Stop::kFinished : Stop::kNone) << step;
  }
  EXPECT_EQ(log, (Steps{3, 6, 9, 12, 15, 18}));
  // Step 20 evaluates and saves because it is the last, not because it is due by the clock; that
  // its checkpoint is kept is a matter of the clock alone.
  EXPECT_EQ(evaluate, (Steps{5, 10, 15}));
  EXPECT_EQ(save, (Steps{4, 8, 10, 12, 16}));
  EXPECT_EQ(keep, (Steps{10, 20}));
}

TEST(Due, NothingBeforeTheFirstStep) {
  const Due due = due_after(rules(), after_steps(0).clock, after_steps(0));
  EXPECT_FALSE(due.log || due.evaluate || due.keep || due.save);
  EXPECT_EQ(due.stop, Stop::kNone);
}

// A batch that was skipped has taken time and made no step.
TEST(Due, ASkippedBatchCountsByTheClockOfTimeAlone) {
  DueRules by_steps = rules();
  RunMoment now = after_steps(5);
  now.clock.seconds += 100;
  EXPECT_FALSE(due_after(by_steps, after_steps(5).clock, now).evaluate);
  by_steps.evaluate = Cadence({60, Unit::kSeconds});
  EXPECT_TRUE(due_after(by_steps, after_steps(5).clock, now).evaluate);
}

TEST(Due, NothingIsDueAfterGoingBack) {
  const Due due = due_after(rules(), after_steps(17).clock, after_steps(10));
  EXPECT_FALSE(due.log || due.evaluate || due.keep || due.save);
  EXPECT_EQ(due.stop, Stop::kNone);
}

TEST(Due, AWholeRunOfEpochsEndsWithItsBatches) {
  DueRules epochs = rules();
  epochs.num_batches = 23;  // three of them skipped
  EXPECT_EQ(due_on(epochs, 20).stop, Stop::kNone);
  RunMoment last = after_steps(20);
  last.next_batch = 23;
  EXPECT_EQ(due_after(epochs, after_steps(19).clock, last).stop, Stop::kFinished);
}

TEST(Due, ATrialEndsWithWhatIsDueThere) {
  DueRules trial = rules();
  trial.trial_end = 10;
  EXPECT_EQ(due_on(trial, 9).stop, Stop::kNone);
  const Due due = due_on(trial, 10);
  EXPECT_EQ(due.stop, Stop::kTrialEnd);
  EXPECT_TRUE(due.evaluate && due.save);
}

TEST(Due, ARunEndsEarlyAfterEvaluationsWithoutGain) {
  DueRules patient = rules();
  patient.patience = 3;
  const auto stop = [&](const DueRules& of, int step, int64_t without_gain) {
    RunMoment now = after_steps(step);
    now.without_gain = without_gain;
    return due_after(of, now.clock, now).stop;
  };
  EXPECT_EQ(stop(patient, 10, 2), Stop::kNone);
  EXPECT_EQ(stop(patient, 10, 3), Stop::kEarlyStop);
  EXPECT_EQ(stop(patient, 10, 4), Stop::kEarlyStop) << "patience was lowered since";
  EXPECT_EQ(stop(patient, 20, 3), Stop::kFinished);
  EXPECT_EQ(stop(rules(), 10, 3), Stop::kNone);
}

TEST(Due, AStopDoesNotPutOffWhatIsDue) {
  RunMoment now = after_steps(10);
  now.signalled = true;
  const Due due = due_after(rules(), after_steps(9).clock, now);
  EXPECT_EQ(due.stop, Stop::kSignal);
  EXPECT_TRUE(due.evaluate && due.save && due.keep);
}

TEST(Due, OfSeveralReasonsToStopTheStrongestIsNamed) {
  DueRules all = rules();
  all.trial_end = 10;
  all.max_seconds = 60;
  const auto stop = [&](int step, bool signalled, double seconds) {
    RunMoment now = after_steps(step);
    now.signalled = signalled;
    now.seconds = seconds;
    return due_after(all, now.clock, now).stop;
  };
  EXPECT_EQ(stop(5, false, 59.9), Stop::kNone);
  EXPECT_EQ(stop(5, false, 60), Stop::kMaxTime);
  EXPECT_EQ(stop(5, true, 60), Stop::kSignal);
  EXPECT_EQ(stop(10, true, 60), Stop::kTrialEnd);
  EXPECT_EQ(stop(20, true, 60), Stop::kFinished);
  EXPECT_TRUE(has_all_steps(Stop::kFinished) && has_all_steps(Stop::kTrialEnd) &&
              has_all_steps(Stop::kEarlyStop));
  EXPECT_TRUE(ends_run(Stop::kFinished) && ends_run(Stop::kEarlyStop));
  EXPECT_FALSE(ends_run(Stop::kTrialEnd) || ends_run(Stop::kSignal));
  EXPECT_FALSE(has_all_steps(Stop::kNone) || has_all_steps(Stop::kSignal) ||
               has_all_steps(Stop::kMaxTime));
}

}  // namespace

// How a run ends without an error.

namespace {

void expect_end(const RunEnd& end, bool done, const std::string& reason, int exit_code) {
  EXPECT_EQ(end.done, done);
  EXPECT_EQ(end.reason, reason);
  EXPECT_EQ(end.exit_code, exit_code);
}

TEST(RunEnd, ItIsDoneWithItsStepsAndItsEvaluation) {
  expect_end(run_end(Stop::kFinished, /*is_evaluated=*/true, 0), true, "done", 0);
  expect_end(run_end(Stop::kTrialEnd, true, 0), true, "done", 0);
  expect_end(run_end(Stop::kEarlyStop, true, 0), true, "early stop", 0);
  // A signal that comes when all is done changes nothing.
  expect_end(run_end(Stop::kFinished, true, 15), true, "done", 0);
}

TEST(RunEnd, ItIsStoppedByASignalOrTheClock) {
  expect_end(run_end(Stop::kSignal, true, 15), false, "signal 15", 143);
  expect_end(run_end(Stop::kFinished, /*is_evaluated=*/false, 2), false, "signal 2", 130);
  expect_end(run_end(Stop::kMaxTime, true, 0), false, "max_time", 75);
}

}  // namespace

// The lowest held-out loss of a run, and how long it has not fallen.

namespace {

// Evaluations 10 steps apart, the first at step 0. Returns without_gain after each.
std::vector<int64_t> note(EvaluationHistory& history, const std::vector<double>& losses,
                          double min_delta = 0) {
  EvalConfig config;
  if (min_delta > 0) config.early_stop = EarlyStopConfig{.patience = 2, .min_delta = min_delta};
  std::vector<int64_t> counts;
  for (size_t i = 0; i < losses.size(); ++i) {
    note_evaluation(history, {static_cast<int64_t>(10 * i), losses[i]}, config, /*saved=*/false);
    counts.push_back(history.without_gain);
  }
  return counts;
}

using Counts = std::vector<int64_t>;

TEST(EvaluationHistory, ALowerLossBeginsTheCountAnew) {
  EvaluationHistory history;
  EXPECT_EQ(note(history, {5, 4, 4.5, 4.25, 3, 3.5}), (Counts{0, 0, 1, 2, 0, 1}));
  EXPECT_EQ(history.lowest->step, 40);
  EXPECT_EQ(history.lowest->loss, 3);
  EXPECT_TRUE(is_lowest(history, 40));
  EXPECT_FALSE(is_lowest(history, 50));
  EXPECT_FALSE(is_lowest(EvaluationHistory(), 0));
}

TEST(EvaluationHistory, OfEqualLossesTheFirstIsTheLowest) {
  EvaluationHistory history;
  EXPECT_EQ(note(history, {4, 4}), (Counts{0, 1}));
  EXPECT_EQ(history.lowest->step, 0);
}

// Each is compared with the lowest before it, however little that was lower than the one before.
TEST(EvaluationHistory, AGainIsMoreThanMinDelta) {
  EvaluationHistory history;
  EXPECT_EQ(note(history, {5, 4.5, 4.25, 4, 3.25}, 0.25), (Counts{0, 0, 1, 2, 0}));
  EXPECT_EQ(history.lowest->step, 40);
  EvaluationHistory slow;
  EXPECT_EQ(note(slow, {5, 4.875, 4.75, 4.625}, 0.25), (Counts{0, 1, 2, 3}));
  EXPECT_EQ(slow.lowest->step, 30) << "it is the lowest all the same";
}

TEST(EvaluationHistory, ALossThatIsNotFiniteHasNoGain) {
  EvaluationHistory history;
  EXPECT_EQ(note(history, {NAN, 5, INFINITY, NAN, 4}), (Counts{1, 0, 1, 2, 0}));
  EXPECT_EQ(history.lowest->step, 40);
}

TEST(EvaluationHistory, WhatACheckpointDoesNotKnowIsRemembered) {
  EvaluationHistory history;
  note_evaluation(history, {10, 4}, EvalConfig(), /*saved=*/false);
  note_evaluation(history, {20, 5}, EvalConfig(), /*saved=*/true);
  note_evaluation(history, {30, NAN}, EvalConfig(), /*saved=*/true);
  ASSERT_EQ(history.after_save.size(), 1U);
  EXPECT_EQ(history.after_save[0].step, 20);
  EXPECT_EQ(history.after_save[0].loss, 5);
}

}  // namespace

}  // namespace lmtrain
