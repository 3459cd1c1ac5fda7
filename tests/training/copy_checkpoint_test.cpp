#include "training/copy_checkpoint.h"

#include "base/support.h"
#include "checkpoint/state.h"
#include "config/parse.h"
#include "formats/manifest.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::replace_file;
using testing::TemporaryFolder;

class BranchTest : public ::testing::Test {
 protected:
  BranchTest() : run_(folder_ / "run") {}

  // A checkpoint of one file.
  void add_checkpoint(int64_t step, const std::string& state = "{}") const {
    const fs::path folder = run_.checkpoint(step);
    fs::create_directories(folder);
    replace_file(folder / kStateFile, state);
    const FileSum sum = sum_file(folder / kStateFile);
    write_manifest(folder, {step, "", "", {{kStateFile, {sum.size, sum.crc}}}});
  }

 private:
  TemporaryFolder folder_;

 protected:
  RunFolder run_;
};

TEST_F(BranchTest, BeginsAtTheNewestCheckpoint) {
  error_of(ErrorKind::kUsage, [&] { checkpoint_of_branch(run_, std::nullopt); });
  add_checkpoint(10);
  add_checkpoint(20);
  EXPECT_EQ(checkpoint_of_branch(run_, std::nullopt), 20);
  replace_file(run_.checkpoint(20) / kStateFile, "[]");
  EXPECT_EQ(checkpoint_of_branch(run_, std::nullopt), 10);
}

TEST_F(BranchTest, BeginsAtTheStepAskedForAlone) {
  add_checkpoint(10);
  add_checkpoint(20);
  EXPECT_EQ(checkpoint_of_branch(run_, 10), 10);
  const std::string message = error_of(ErrorKind::kUsage, [&] { checkpoint_of_branch(run_, 15); });
  EXPECT_EQ(message, "the run in " + run_.path().string() +
                         " has no checkpoint of step 15; its checkpoints are of 10, 20");
  replace_file(run_.checkpoint(10) / kStateFile, "[]");
  error_of(ErrorKind::kCheckpoint, [&] { checkpoint_of_branch(run_, 10); });
}

// A folder that was renamed, and a checkpoint of another run.
TEST_F(BranchTest, BeginsAtNoCheckpointThatIsNotWhatItSays) {
  add_checkpoint(10);
  fs::rename(run_.checkpoint(10), run_.checkpoint(30));
  const std::string renamed =
      error_of(ErrorKind::kCheckpoint, [&] { checkpoint_of_branch(run_, 30); });
  EXPECT_NE(renamed.find("its manifest is of step 10"), std::string::npos) << renamed;
  EXPECT_NE(renamed.find("its name is step_00000010"), std::string::npos) << renamed;
  add_checkpoint(20);
  EXPECT_EQ(checkpoint_of_branch(run_, std::nullopt), 20);

  TrainingState state;
  state.run = "theirs";
  add_checkpoint(40, state_to_text(state));
  const RunFolder run(run_.path(), {.id = "ours", .branch_of = {}, .init_from = ""});
  for (const std::optional<int64_t> step : {std::optional<int64_t>(40), std::optional<int64_t>()}) {
    const std::string foreign =
        error_of(ErrorKind::kCheckpoint, [&] { checkpoint_of_branch(run, step); });
    for (const char* part : {"step_00000040", "run theirs", "is ours", "init_from"})
      EXPECT_NE(foreign.find(part), std::string::npos) << foreign;
  }
  EXPECT_EQ(checkpoint_of_branch(run, 20), 20);
}

TEST_F(BranchTest, IsARunOfItsOwnOfOneSeed) {
  const Config config = parse_config(
      R"({"name": "run", "run_dir": "/runs/run", "seed": 5, "data": {"train": ["/corpus"]}})",
      "run.json", {"restart.seeds=4", "restart.vary=init"});
  const Config branch = config_of_branch(config, 7, RunFolder("/runs/other"));
  EXPECT_EQ(branch.name, "other");
  EXPECT_EQ(branch.run_dir, "/runs/other");
  EXPECT_EQ(branch.seed, 7);
  EXPECT_EQ(branch.data_seed(), 5);  // the order of data is that of all trials
  EXPECT_EQ(branch.restart, RestartConfig());
}

}  // namespace
}  // namespace lmtrain
