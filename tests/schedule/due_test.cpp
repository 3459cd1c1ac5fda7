// Which steps of a run log, evaluate, save and keep, and what ends it.
#include "schedule/due.h"

#include <gtest/gtest.h>

#include <vector>

namespace lmtrain {
namespace {

using Unit = TrainingDuration::Unit;
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
}  // namespace lmtrain
