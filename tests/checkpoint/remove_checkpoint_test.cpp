#include "checkpoint/remove_checkpoint.h"

#include "base/support.h"
#include "checkpoint/trial.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::replace_file;
using testing::TemporaryFolder;

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
