// Random restart and restart on divergence, without the command line.
#include "training/restart.h"

#include "training/tiny_run.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::Json;
using testing::TinyRun;

Json short_run(const Json& restart, int64_t seed = 1337) {
  return {{"seed", seed},
          {"train", {{"steps", 16}}},
          {"eval", {{"every", 0}}},
          {"checkpoint", {{"every", 0}}},
          {"restart", restart}};
}

RestartableRun restartable(const TinyRun& tiny) {
  return RestartableRun(tiny.config, tiny.data, tiny.run);
}

// A folder holds a run from here on.
void begin_run(const TinyRun& tiny) { write_file_atomic(tiny.run.config(), "{}"); }

std::vector<int64_t> evaluated_steps(const TinyRun& tiny) {
  std::vector<int64_t> steps;
  for (const Json& line : tiny.lines(tiny.run.metrics()))
    if (line.contains("eval_loss")) steps.push_back(line["step"].get<int64_t>());
  return steps;
}

TEST(RestartableRun, WithoutTrialsItIsOneTrainer) {
  const TinyRun alone(short_run(Json::object()));
  alone.trainer().run();
  const TinyRun tiny(short_run(Json::object()));
  begin_run(tiny);
  RestartableRun run = restartable(tiny);
  ASSERT_NE(run.trainer(), nullptr);
  EXPECT_EQ(run.plan()->steps, 16);
  EXPECT_EQ(run.run().exit_code, 0);
  EXPECT_TRUE(tiny.bytes(16) == alone.bytes(16));
  EXPECT_FALSE(is_there(tiny.run.trials()));
}

TEST(RestartableRun, TheBestTrialGoesOnAsThatSeedAlone) {
  const TinyRun tiny(short_run({{"seeds", 3}, {"tokens", "25%"}}));
  begin_run(tiny);
  RestartableRun run = restartable(tiny);
  EXPECT_EQ(run.trainer(), nullptr) << "a trial comes first";
  EXPECT_EQ(run.run().exit_code, 0);
  const std::vector<TrialResult> trials = read_trials(tiny.run);
  ASSERT_EQ(trials.size(), 3U);
  const TrialResult* best = &trials[0];
  for (size_t i = 0; i < trials.size(); ++i) {
    EXPECT_EQ(trials[i].seed, 1337 + static_cast<int64_t>(i));
    EXPECT_EQ(trials[i].step, 4);
    if (*trials[i].loss < *best->loss) best = &trials[i];
    // Only what goes on keeps weights.
    EXPECT_FALSE(is_there(trial_folder(tiny.run, trials[i].seed).checkpoints()));
  }
  for (const TrialResult& trial : trials) EXPECT_EQ(trial.continued, trial.seed == best->seed);
  EXPECT_EQ(tiny.events("restart_trial").size(), 3U);
  EXPECT_EQ(tiny.state(16).seed, best->seed);
  for (const TrialResult& trial : trials) {
    const TinyRun alone(short_run(Json::object(), trial.seed));
    alone.trainer().run();
    EXPECT_EQ(tiny.bytes(16) == alone.bytes(16), trial.seed == best->seed) << trial.seed;
  }
}

// Else the weights of step 0, or those before a trial overfits, would be lost.
TEST(RestartableRun, TheBestCheckpointsOfATrialComeAlong) {
  Json changes = short_run({{"seeds", 2}, {"tokens", "25%"}});
  changes["checkpoint"]["keep_best"] = 2;
  const TinyRun tiny(changes);
  begin_run(tiny);
  EXPECT_EQ(restartable(tiny).run().exit_code, 0);
  EXPECT_EQ(tiny.run.checkpoint_steps(), (std::vector<int64_t>{16, 4, 0}));
  EXPECT_EQ(tiny.state(0).seed, tiny.state(16).seed);
}

// A trial that ends between two evaluations is ranked by one more, which is none of the run.
TEST(RestartableRun, TheEvaluationThatRanksATrialIsNoneOfTheRun) {
  for (const int64_t keep_best : {0, 1}) {
    Json changes = short_run({{"seeds", 2}, {"tokens", "20%"}});
    changes["checkpoint"]["keep_best"] = keep_best;
    const TinyRun tiny(changes);
    begin_run(tiny);
    EXPECT_EQ(restartable(tiny).run().exit_code, 0);
    Json of_seed = short_run(Json::object(), tiny.state(16).seed);
    of_seed["checkpoint"]["keep_best"] = keep_best;
    const TinyRun alone(of_seed);
    alone.trainer().run();
    EXPECT_EQ(evaluated_steps(tiny), evaluated_steps(alone)) << keep_best;
    EXPECT_EQ(tiny.state(16).evaluations.lowest->step, alone.state(16).evaluations.lowest->step);
    EXPECT_TRUE(tiny.bytes(16) == alone.bytes(16)) << keep_best;
  }
}

// As after a kill: the trials that have a result are not made again.
TEST(RestartableRun, GoesOnWithTheTrialsThatAreMissing) {
  const TinyRun tiny(short_run({{"seeds", 3}, {"tokens", "25%"}}));
  begin_run(tiny);
  TrialResult known;
  known.seed = 1337;
  known.diverged = true;
  known.reason = "known before";
  known.fingerprint = tiny.data.fingerprint;
  write_trial(tiny.run, known);
  EXPECT_EQ(restartable(tiny).run().exit_code, 0);
  const std::vector<TrialResult> trials = read_trials(tiny.run);
  ASSERT_EQ(trials.size(), 3U);
  EXPECT_EQ(trials[0].reason, "known before");
  EXPECT_EQ(tiny.events("restart_trial").size(), 2U);
  // The run itself comes next from now on, at the end of its steps.
  RestartableRun again = restartable(tiny);
  ASSERT_NE(again.trainer(), nullptr);
  EXPECT_EQ(again.trainer()->state().step, 16);
}

// All its checkpoints were deleted, those of its best trial long before.
TEST(RestartableRun, WithoutCheckpointsTheBestBeginsAgain) {
  const TinyRun tiny(short_run({{"seeds", 2}, {"tokens", "25%"}}));
  begin_run(tiny);
  restartable(tiny).run();
  const std::string bytes = tiny.bytes(16);
  std::filesystem::remove_all(tiny.run.checkpoints());
  RestartableRun again = restartable(tiny);
  ASSERT_NE(again.trainer(), nullptr) << "no trial comes again";
  EXPECT_EQ(again.run().exit_code, 0);
  EXPECT_TRUE(tiny.bytes(16) == bytes);
}

// Losses on other text say nothing about each other.
TEST(RestartableRun, TrialsOnOtherDataAreRefused) {
  const TinyRun tiny(short_run({{"seeds", 3}, {"tokens", "25%"}}));
  begin_run(tiny);
  TrialResult known;
  known.seed = 1337;
  known.loss = 5;
  known.fingerprint = "other text";
  write_trial(tiny.run, known);
  const std::string message = error_of(ErrorKind::kData, [&] { restartable(tiny); });
  EXPECT_NE(message.find("seed_1337 was trained on other text"), std::string::npos) << message;
  known.fingerprint = tiny.data.fingerprint;
  write_trial(tiny.run, known);
  restartable(tiny);
}

// With so low a rate no weight changes, and the held-out loss does not fall.
TEST(RestartableRun, GivesUpAfterTheLastAttempt) {
  Json changes = short_run({{"on_divergence", true}, {"max_attempts", 2}, {"tokens", "25%"}});
  changes["optimizer"] = {{"lr", 1e-30}};
  const TinyRun tiny(changes);
  begin_run(tiny);
  RestartableRun run = restartable(tiny);
  const std::string message = error_of(ErrorKind::kNumeric, [&] { run.run(); });
  EXPECT_NE(message.find("attempt 2 of 2 did not converge"), std::string::npos) << message;
  EXPECT_EQ(run.failed_status() + "\n", read_file(tiny.run.status()));
  EXPECT_EQ(tiny.status().at("state"), "diverged");
  const std::vector<TrialResult> trials = read_trials(tiny.run);
  ASSERT_EQ(trials.size(), 2U);
  EXPECT_EQ(trials[1].attempt, 1);
  EXPECT_EQ(trials[1].seed, 1338);
  // Asked again, it says the same and trains nothing.
  RestartableRun again = restartable(tiny);
  EXPECT_FALSE(again.plan());
  EXPECT_EQ(error_of(ErrorKind::kNumeric, [&] { again.run(); }), message);
  EXPECT_EQ(read_trials(tiny.run).size(), 2U);
}

TEST(RestartableRun, TrialsWantHeldOutText) {
  // As of a corpus that is too short to hold text out.
  TinyRun tiny(short_run({{"seeds", 2}}));
  tiny.data.eval_shard.reset();
  error_of(ErrorKind::kConfig, [&] { restartable(tiny); });
}

TEST(RestartableRun, ChangedSettingsAreTheRunsOwn) {
  const TinyRun tiny(short_run(Json::object()));
  begin_run(tiny);
  restartable(tiny).run();
  const Json changes = {{{"key", "log.every"}}};
  RestartableRun again = restartable(tiny);
  again.note_changes(changes);
  EXPECT_EQ(again.run().exit_code, 0);
  ASSERT_EQ(tiny.events("resume").size(), 1U);
  EXPECT_EQ(tiny.events("resume")[0].at("changed"), changes);
}

}  // namespace
}  // namespace lmtrain
