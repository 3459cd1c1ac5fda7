// What becomes of the settings of a run: changes are announced, recorded and kept; a config.json
// that was damaged or edited is not trained on.
#include <gtest/gtest.h>

#include <algorithm>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

void expect_parts(const ProcessResult& result, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << part << result;
}

std::vector<std::string> history(const RunDir& run) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run.folder() / "config_history"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// Replaces text in config.json, which must be there.
void edit(const RunDir& run, const std::string& from, const std::string& to) {
  std::string text = read_text(run.folder() / "config.json");
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  replace_file(run.folder() / "config.json", text.replace(at, from.size(), to));
}

TEST(Settings, ChangesOnResumeAreAnnouncedRecordedAndKept) {
  const RunDir run = reference().run.copy(reference().fresh("changed"));
  const std::string before = read_text(run.folder() / "config.json");
  const ProcessResult resumed =
      lmtrain({"resume", run.path(), "--set", "train.steps=45", "--set", "guard.max_skips=3"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed;
  expect_parts(resumed, {"train.steps is 45 from here on (was 40)",
                         "guard.max_skips is 3 from here on (was 10)"});
  const Json event = run.events("resume").at(0);
  EXPECT_EQ(event.at("step"), 40);
  EXPECT_EQ(event.at("changed"), Json::parse(R"([{"key": "train.steps", "was": 40, "is": 45},
                            {"key": "guard.max_skips", "was": 10, "is": 3}])"));
  EXPECT_EQ(history(run),
            (std::vector<std::string>{"0001_step_00000000.json", "0002_step_00000040.json"}));
  EXPECT_EQ(read_text(run.folder() / "config_history/0001_step_00000000.json"), before);
  EXPECT_EQ(read_text(run.folder() / "config_history/0002_step_00000040.json"),
            read_text(run.folder() / "config.json"));
  // Nothing changed: nothing is said or kept.
  const ProcessResult again = lmtrain({"resume", run.path(), "--set", "train.steps=45"});
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_EQ(again.err.find("from here on"), std::string::npos) << again;
  EXPECT_EQ(history(run).size(), 2U);
  EXPECT_EQ(run.events("resume").size(), 1U);
}

TEST(Settings, OneFolderIsNamedForTheRun) {
  const std::string folder = reference().fresh("named").string();
  for (const char* command : {"train", "plan"}) {
    const ProcessResult refused = lmtrain({command, reference().config, "--run-dir", folder,
                                           "--set", "run_dir=" + folder + "-other"});
    EXPECT_EQ(refused.exit_code, 2) << refused;
    expect_parts(refused, {"both name the run folder"});
  }
  const ProcessResult both = lmtrain({"train", reference().config, "--run-dir", folder, "--set",
                                      "run_dir=" + folder, "--dry-run"});
  EXPECT_EQ(both.exit_code, 0) << both;
}

// Of a finished run, too, and by train --continue; a resume without a change has no such field.
TEST(Settings, EveryWayToChangeThemIsRecorded) {
  const RunDir finished = reference().run.copy(reference().fresh("finished"));
  const ProcessResult result = lmtrain({"train", reference().config, "--run-dir", finished.path(),
                                        "--continue", "--set", "checkpoint.keep=9"});
  ASSERT_EQ(result.exit_code, 0) << result;
  expect_parts(result, {"checkpoint.keep is 9 from here on (was 3)", "is finished"});
  EXPECT_EQ(finished.events("resume").at(0).at("changed").at(0).at("key"), "checkpoint.keep");

  const RunDir stopped = copy_of_stopped_run("stopped");
  ASSERT_EQ(lmtrain({"resume", stopped.path()}).exit_code, 0);
  EXPECT_FALSE(stopped.events("resume").at(0).contains("changed"));

  const RunDir branch(reference().fresh("branch"));
  const ProcessResult branched = lmtrain({"resume", stopped_run().path(), "--run-dir",
                                          branch.path(), "--set", "optimizer.weight_decay=0.2"});
  ASSERT_EQ(branched.exit_code, 0) << branched;
  expect_parts(branched, {"optimizer.weight_decay is 0.2 from the next update on (was 0.1)"});
  EXPECT_EQ(branch.events("start").at(0).at("changed").dump(),
            R"([{"key":"optimizer.weight_decay","was":0.1,"is":0.2}])");
  EXPECT_EQ(history(branch).size(), 1U);
}

// The run holds the absolute path of a relative one that was typed.
TEST(Settings, ARelativePathThatIsTypedAgainIsNotOverlooked) {
  const RunDir run = reference().run.copy(reference().fresh("relative"));
  const ProcessResult result =
      lmtrain({"train", reference().config, "--run-dir", run.path(), "--continue", "--set",
               R"(data.eval=["data/sample.jsonl"])"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.err.find("are not taken"), std::string::npos) << result;
}

// One digit of the rate, the seed or the model: trained on before, refused now.
TEST(Settings, AnEditedOrDamagedConfigIsRefused) {
  const RunDir& whole = reference().run;
  struct Case {
    std::string from, to, found;
  };
  for (const Case& c : {Case{"\"lr\": 0.003", "\"lr\": 0.007", "/optimizer/lr is 0.007, was 0.003"},
                        Case{"\"seed\": 1337", "\"seed\": 1336", "/seed is 1336, was 1337"},
                        Case{"\"rope_theta\": 10000.0", "\"rope_theta\": 10001.0",
                             "/model/rope_theta is 10001.0, was 10000.0"}}) {
    const RunDir run = whole.copy(reference().fresh("edited"));
    edit(run, c.from, c.to);
    const std::string held = (run.folder() / "config_history/0001_step_00000000.json").string();
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"resume", run.path(), "--set", "train.steps=45"},
          std::vector<std::string>{"train", reference().config, "--run-dir", run.path(),
                                   "--continue"},
          std::vector<std::string>{"resume", run.path(), "--run-dir", run.path() + "-branch"},
          std::vector<std::string>{"eval", run.path()}}) {
      const ProcessResult refused = lmtrain(command);
      EXPECT_EQ(refused.exit_code, 3) << refused;
      expect_parts(refused, {"config.json is not as lmtrain wrote it", c.found, "--set KEY=VALUE",
                             "cp " + held});
    }
    EXPECT_EQ(run.metrics().size(), whole.metrics().size());
    // The advice works.
    fs::copy_file(held, run.folder() / "config.json", fs::copy_options::overwrite_existing);
    EXPECT_EQ(lmtrain({"resume", run.path()}).exit_code, 0);
  }
}

// A copy of a run's config.json, edited or not, is a config for a new run.
TEST(Settings, ACopyOfARunsConfigBeginsANewRun) {
  const Workspace workspace;
  Json config = Json::parse(read_text(reference().run.folder() / "config.json"));
  config["optimizer"]["lr"] = 0.001;
  config["train"]["steps"] = 2;
  const RunDir run(workspace / "run");
  const ProcessResult result =
      lmtrain({"train", workspace.write("copy.json", config.dump()), "--run-dir", run.path()});
  EXPECT_EQ(result.exit_code, 0) << result;
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
}

}  // namespace
}  // namespace lmtrain::testing
