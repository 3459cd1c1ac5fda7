// Which checkpoints stay.
#include "checkpoint/retention.h"

#include "base/support.h"
#include "checkpoint/trial.h"
#include "formats/manifest.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using StepList = std::vector<int64_t>;
using testing::replace_file;
using testing::TemporaryFolder;

SavedCheckpoint saved(int64_t step, std::optional<double> eval_loss = {}, bool kept = false) {
  return {step, kept, eval_loss};
}

TEST(Retention, TheLowestComeFirstAndOfEqualOnesTheEarlier) {
  const std::vector<SavedCheckpoint> all = {saved(50, 3.0), saved(40), saved(30, 2.0),
                                            saved(20, 3.0), saved(10, 4.0)};
  EXPECT_EQ(best_checkpoints(all, 3), (StepList{30, 20, 50}));
  EXPECT_EQ(best_checkpoints(all, 0), StepList());
  EXPECT_EQ(best_checkpoints(all, 100), (StepList{30, 20, 50, 10}));
}

TEST(Retention, WhatIsNeitherNewNorKeptNorAmongTheBestIsOld) {
  const std::vector<SavedCheckpoint> all = {
      saved(60, 5.0), saved(50, 4.5), saved(40, 4.0), saved(30, 3.0), saved(20, {}, /*kept=*/true),
      saved(10, 2.0), saved(0, 9.0)};
  EXPECT_EQ(old_checkpoints(all, {.keep = 1, .keep_best = 0}), (StepList{50, 40, 30, 10, 0}));
  // By default the best one stays beside the newest.
  EXPECT_EQ(old_checkpoints(all, {.keep = 1}), (StepList{50, 40, 30, 0}));
  EXPECT_EQ(old_checkpoints(all, {.keep = 2, .keep_best = 1}), (StepList{40, 30, 0}));
  EXPECT_EQ(old_checkpoints(all, {.keep = 1, .keep_best = 3}), (StepList{50, 0}));
  // One that is both new and among the best takes a place of each.
  EXPECT_EQ(old_checkpoints({saved(30, 1.0), saved(20, 2.0), saved(10, 3.0)},
                            {.keep = 1, .keep_best = 2}),
            (StepList{10}));
  EXPECT_EQ(old_checkpoints({saved(5, 1.0)}, {.keep = 1}), StepList());
}

class RetentionInAFolder : public ::testing::Test {
 protected:
  void write(int64_t step, std::optional<double> eval_loss, int64_t eval_step) {
    TrainingState state;
    state.step = step;
    state.eval_loss = eval_loss;
    state.eval_step = eval_step;
    fs::create_directories(run.checkpoint(step));
    testing::replace_file(run.checkpoint(step) / kStateFile, state_to_text(state));
  }
  StepList left_after(int64_t newest, const CheckpointConfig& config) {
    TrainingState state;
    state.step = newest;
    state.evaluations.after_save = after_save;
    remove_old_checkpoints(run, state, config);
    return run.checkpoint_steps();
  }

  testing::TemporaryFolder folder;
  RunFolder run{folder / "run"};
  std::vector<EvaluatedStep> after_save;
};

TEST_F(RetentionInAFolder, ALossBelongsToTheStepOfItsEvaluation) {
  write(10, 4.0, 10);
  write(15, 4.0, 10);  // not evaluated itself
  write(20, 5.0, 20);
  write(30, std::nullopt, 30);  // not finite
  EXPECT_EQ(left_after(30, {.keep = 1, .keep_best = 1}), (StepList{30, 10}));
}

// Somebody has renamed a checkpoint to another step: its loss is not a loss of that step.
TEST_F(RetentionInAFolder, ALossOfAnotherStepDoesNotCount) {
  write(10, 4.0, 10);
  write(20, 3.0, 20);
  write(30, 5.0, 30);
  fs::rename(run.checkpoint(20), run.checkpoint(15));
  EXPECT_EQ(left_after(30, {.keep = 1, .keep_best = 1}), (StepList{30, 10}));
}

TEST_F(RetentionInAFolder, AnEvaluationAfterTheSaveCounts) {
  write(10, 4.0, 10);
  write(20, 4.0, 10);  // a signal came before its evaluation
  write(30, 5.0, 30);
  after_save = {{20, 3.0}};
  EXPECT_EQ(left_after(30, {.keep = 1, .keep_best = 1}), (StepList{30, 20}));
}

// Whatever was read of them, later checkpoints are none of the run's.
TEST_F(RetentionInAFolder, LaterOnesAreNeitherCountedNorRemoved) {
  write(10, 4.0, 10);
  write(20, 5.0, 20);
  write(40, 1.0, 40);
  EXPECT_EQ(left_after(20, {.keep = 1, .keep_best = 1}), (StepList{40, 20, 10}));
}

TEST_F(RetentionInAFolder, OneWhoseStateCannotBeReadIsNotAmongTheBest) {
  write(10, 4.0, 10);
  testing::replace_file(run.checkpoint(10) / kStateFile, "{");
  write(20, 5.0, 20);
  write(30, 6.0, 30);
  EXPECT_EQ(left_after(30, {.keep = 1, .keep_best = 1}), (StepList{30, 20}));
}

void write_checkpoint_folder(const fs::path& folder) {
  fs::create_directories(folder);
  for (const char* file : {"manifest.json", "model.safetensors"}) replace_file(folder / file, "x");
}

// Moves what is at `path` to `archive` and leaves a link behind.
void move_away(const fs::path& path, const fs::path& archive) {
  fs::rename(path, archive);
  fs::create_directory_symlink(archive, path);
}

void expect_whole(const fs::path& checkpoint) {
  EXPECT_EQ(read_file(checkpoint / "manifest.json"), "x");
  EXPECT_EQ(read_file(checkpoint / "model.safetensors"), "x");
}

TEST(RemoveCheckpoint, OneButNotThroughALink) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run");
  for (const int64_t step : {3, 4}) write_checkpoint_folder(run.checkpoint(step));
  move_away(run.checkpoint(4), folder / "archive");
  remove_checkpoint(run, 3);
  remove_checkpoint(run, 4);
  remove_checkpoint(run, 4);  // nothing there is fine
  EXPECT_TRUE(fs::is_empty(run.checkpoints()));
  expect_whole(folder / "archive");
}

TEST(RemoveCheckpoint, UnfinishedOnesButNotThroughALink) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run");
  write_checkpoint_folder(run.unfinished_checkpoint(5));
  move_away(run.unfinished_checkpoint(5), folder / "archive");
  run.remove_unfinished();
  EXPECT_TRUE(fs::is_empty(run.checkpoints()));
  expect_whole(folder / "archive");
}

TEST(RemoveCheckpoint, AllButNotThroughALink) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run"), elsewhere(folder / "elsewhere");
  for (const int64_t step : {3, 4}) write_checkpoint_folder(run.checkpoint(step));
  write_checkpoint_folder(elsewhere.checkpoint(1));
  move_away(run.checkpoint(4), folder / "archive");
  move_away(elsewhere.checkpoints(), folder / "other disk");
  remove_checkpoints(run);
  remove_checkpoints(elsewhere);
  EXPECT_FALSE(fs::exists(run.checkpoints()));
  EXPECT_FALSE(fs::is_symlink(elsewhere.checkpoints()));
  expect_whole(folder / "archive");
  expect_whole(folder / "other disk/step_00000001");
}

TEST(RemoveCheckpoint, ThoseOfATrialUnlessItWasMovedAway) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run");
  for (const int64_t seed : {1, 2, 3})
    write_checkpoint_folder(trial_folder(run, seed).checkpoint(7));
  move_away(trial_folder(run, 2).path(), folder / "trial");
  move_away(trial_folder(run, 3).checkpoints(), folder / "checkpoints");
  for (const int64_t seed : {1, 2, 3}) remove_trial_checkpoints(run, seed);
  EXPECT_FALSE(fs::exists(trial_folder(run, 1).checkpoints()));
  expect_whole(trial_folder(run, 2).checkpoint(7));
  EXPECT_FALSE(fs::is_symlink(trial_folder(run, 3).checkpoints()));
  expect_whole(folder / "checkpoints/step_00000007");
}

}  // namespace

}  // namespace lmtrain
