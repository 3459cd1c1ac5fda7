// What `train` refuses is told by `train --dry-run`, with the same exit code, and by `plan`, and
// nothing is created.
#include <gtest/gtest.h>

#include "e2e/references.h"
#include "e2e/small_disk.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// train, --dry-run and plan of tiny_config into `folder`.
struct Told {
  Told(const Workspace& workspace, const fs::path& folder) {
    const std::string config = workspace.config({{"run_dir", folder.string()}});
    dry_run = lmtrain({"train", config, "--dry-run"});
    plan = lmtrain({"plan", config});
    json = Json::parse(lmtrain({"plan", config, "--json"}).out, nullptr, false);
    train = lmtrain({"train", config});
  }
  // All three tell the same.
  void expect_refused(int exit_code, const std::string& part) const {
    EXPECT_EQ(train.exit_code, exit_code) << train;
    EXPECT_NE(train.err.find(part), std::string::npos) << train;
    EXPECT_EQ(dry_run.exit_code, exit_code) << dry_run;
    EXPECT_EQ(dry_run.out, "") << dry_run;
    EXPECT_NE(dry_run.err.find(part), std::string::npos) << dry_run;
    EXPECT_EQ(plan.exit_code, 0) << plan;
    EXPECT_NE(plan.out.find(part), std::string::npos) << plan;
    ASSERT_EQ(json.at("obstacles").size(), 1U) << json;
    EXPECT_NE(json.at("obstacles")[0].get<std::string>().find(part), std::string::npos) << json;
  }
  ProcessResult train, dry_run, plan;
  Json json;
};

TEST(StartChecks, AFolderThatHoldsARun) {
  const RunDir& run = reference().run;
  const std::string before = read_text(run.folder() / "events.jsonl");
  const Workspace workspace;
  Told(workspace, run.folder()).expect_refused(2, "already holds a run");
  // With --continue it would be resumed.
  const ProcessResult go_on =
      lmtrain({"train", reference().config, "--run-dir", run.path(), "--continue", "--dry-run"});
  EXPECT_EQ(go_on.exit_code, 0) << go_on;
  EXPECT_NE(go_on.out.find("would go on with the run in " + run.path()), std::string::npos);
  EXPECT_EQ(read_text(run.folder() / "events.jsonl"), before);
}

TEST(StartChecks, AFolderAmongTheCheckpointsOfARun) {
  const RunDir& run = reference().run;
  const Workspace workspace;
  for (const char* name : {"checkpoints/.tmp-mine", "checkpoints/mine/deep", "trials/seed_1"}) {
    const ProcessResult result = lmtrain(
        {"train", workspace.config(), "--run-dir", (run.folder() / name).string(), "--dry-run"});
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_NE(result.err.find("of the run " + run.path() + ", which may remove it"),
              std::string::npos)
        << result;
  }
  const ProcessResult branch =
      lmtrain({"resume", run.path(), "--run-dir", (run.folder() / "checkpoints").string()});
  EXPECT_EQ(branch.exit_code, 2) << branch;
}

TEST(StartChecks, AFolderThatCannotBeWrittenTo) {
  const SmallDisk disk("40m");
  if (!disk.mounted() || !disk.make_read_only()) GTEST_SKIP() << "nothing can be mounted here";
  const Workspace workspace;
  const Told told(workspace, disk / "run");
  told.expect_refused(5, "cannot write to " + (disk / "").parent_path().string());
  // Before the text is prepared.
  const Workspace fresh;
  const ProcessResult result =
      lmtrain({"train", fresh.config(), "--run-dir", (disk / "run").string()});
  EXPECT_EQ(result.exit_code, 5) << result;
  EXPECT_FALSE(fs::exists(fresh / "cache"));
}

// plan needs no processes to say what they would refuse.
TEST(StartChecks, SettingsThatSeveralProcessesRuleOut) {
  const Workspace workspace;
  const std::string config =
      workspace.config({{"parallel", {{"shard", "parameters"}, {"sum", "exact"}, {"parts", 2}}}});
  const auto obstacles = [&](const char* processes) {
    return Json::parse(lmtrain({"plan", config, "--processes", processes, "--json"}).out)
        .at("obstacles");
  };
  EXPECT_EQ(obstacles("1").size(), 0U);
  const Json two = obstacles("2");
  ASSERT_EQ(two.size(), 1U) << two;
  EXPECT_NE(two[0].get<std::string>().find("set model.activation_checkpointing to true"),
            std::string::npos)
      << two;
  const Json four = obstacles("4");
  ASSERT_EQ(four.size(), 2U) << four;
  EXPECT_NE(four[0].get<std::string>().find("there are 4 processes"), std::string::npos) << four;
}

TEST(StartChecks, ADiskWithoutRoomForACheckpoint) {
  const SmallDisk disk("512k");
  if (!disk.mounted()) GTEST_SKIP() << "no file system can be mounted here";
  const Workspace workspace;
  Told(workspace, disk / "run")
      .expect_refused(5, "a checkpoint of " + (disk / "run").string() + " needs");
  EXPECT_FALSE(fs::exists(disk / "run"));
}

TEST(StartChecks, ADiskWithoutRoomForAllCheckpoints) {
  const SmallDisk disk("2m");
  if (!disk.mounted()) GTEST_SKIP() << "no file system can be mounted here";
  const Workspace workspace;
  const Told told(workspace, disk / "run");
  EXPECT_EQ(told.json.at("obstacles").size(), 0U) << told.json;
  EXPECT_EQ(told.json.at("checkpoints_at_once"), 4) << "the newest three and one being written";
  EXPECT_NE(told.plan.out.find("not all of them fit"), std::string::npos) << told.plan;
  EXPECT_EQ(told.dry_run.exit_code, 0) << told.dry_run;
  for (const ProcessResult* result : {&told.dry_run, &told.train}) {
    EXPECT_NE(result->err.find("not all checkpoints of the run will fit: at most 4 at once"),
              std::string::npos)
        << *result;
  }
}

}  // namespace
}  // namespace lmtrain::testing
