// A run folder that was copied or moved is a run of its own: nothing in it leads back.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// Files of the run that name `path`. Events, the log and former configs tell what was, at the path
// where it was.
std::vector<std::string> files_naming(const std::string& path, const RunDir& run) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(run.folder())) {
    const std::string name = fs::relative(entry.path(), run.folder());
    const bool tells_what_was = name.ends_with("events.jsonl") || name.ends_with(".log") ||
                                name.starts_with("config_history/");
    if (!entry.is_regular_file() || tells_what_was) continue;
    if (read_text(entry.path()).find(path) != std::string::npos) files.push_back(name);
  }
  return files;
}

// Trains until `line` is in the metrics of `metrics_of`, and stops.
void train_and_stop(const std::string& config, const RunDir& run, const RunDir& metrics_of,
                    const std::string& line) {
  LmtrainProcess process({"train", config, "--run-dir", run.path()});
  ASSERT_TRUE(process.wait_until([&] { return metrics_of.has_metrics_line(line); }));
  process.send(SIGTERM);
  const ProcessResult result = process.wait();
  ASSERT_EQ(result.exit_code, 128 + SIGTERM) << result;
}

TEST(CopiedRun, GoesOnWhereItIs) {
  const Reference& whole = reference();
  const RunDir original(whole.fresh("original"));
  train_and_stop(whole.config, original, original, "{\"step\":16,");
  const RunDir copy = original.copy(whole.fresh("copy"));
  fs::rename(original.folder(), whole.fresh("gone"));
  const ProcessResult result = lmtrain({"resume", copy.path()});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(difference(copy, whole.run), "");
  EXPECT_FALSE(fs::exists(original.folder()));
  EXPECT_EQ(files_naming(original.path(), copy), std::vector<std::string>{});
  EXPECT_EQ(result.out.find(original.path()), std::string::npos) << result;
  const Json config = Json::parse(read_text(copy.folder() / "config.json"));
  EXPECT_EQ(config.at("run_dir"), copy.path());
  // Its own config.json leads to it.
  const ProcessResult again =
      lmtrain({"train", (copy.folder() / "config.json").string(), "--continue"});
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_NE(again.err.find(copy.path() + " is finished"), std::string::npos) << again;
}

TEST(CopiedRun, AFolderWhoseNameIsNotUtf8IsRefused) {
  const Reference& whole = reference();
  const std::string odd = whole.fresh("odd").string() + "\xFF";
  const RunDir copy = whole.run.copy(odd);
  for (const auto& arguments : {std::vector<std::string>{"resume", odd},
                                {"resume", whole.run.path(), "--run-dir", odd + "-branch"}}) {
    const ProcessResult result = lmtrain(arguments);
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_NE(result.err.find("is not UTF-8"), std::string::npos) << result;
  }
  EXPECT_FALSE(fs::exists(odd + "-branch"));
}

// A config would put the value of a variable in the place of the name.
TEST(CopiedRun, AFolderWhoseNameHasAVariableIsRefused) {
  const Workspace workspace;
  const fs::path folder = workspace / "x${NOPEX}y";
  const ProcessResult refused = lmtrain({"train", workspace.config(), "--run-dir", folder});
  EXPECT_EQ(refused.exit_code, 2) << refused;
  EXPECT_NE(refused.err.find("environment variable"), std::string::npos) << refused;
  fs::create_directories(folder);
  const RunDir copy = reference().run.copy(folder / "run");
  const ProcessResult resumed = lmtrain({"resume", copy.path()});
  EXPECT_EQ(resumed.exit_code, 2) << resumed;
  EXPECT_NE(resumed.err.find("rename the folder"), std::string::npos) << resumed;
}

TEST(CopiedRun, ThatIsFinishedNamesItsOwnCheckpoint) {
  const Reference& whole = reference();
  const std::string before = read_text(whole.run.folder() / "status.json");
  const RunDir copy = whole.run.copy(whole.fresh("finished"));
  const ProcessResult result = lmtrain({"resume", copy.path()});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(copy.status().at("checkpoint"), copy.newest_checkpoint().string());
  for (const char* field : {"state", "step", "tokens", "loss", "eval_loss", "exit_code"})
    EXPECT_EQ(copy.status().at(field), whole.run.status().at(field)) << field;
  EXPECT_EQ(files_naming(whole.run.path(), copy), std::vector<std::string>{});
  EXPECT_EQ(read_text(whole.run.folder() / "status.json"), before);
}

TEST(CopiedRun, GoesOnWithItsTrials) {
  const Reference& whole = reference({{"restart", {{"seeds", 2}, {"tokens", "25%"}}}});
  const RunDir original(whole.fresh("original"));
  train_and_stop(whole.config, original, RunDir(original.folder() / "trials/seed_1337"),
                 "{\"step\":4,");
  const RunDir copy = original.copy(whole.fresh("copy"));
  fs::rename(original.folder(), whole.fresh("gone"));
  const ProcessResult result = lmtrain({"resume", copy.path()});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(difference(copy, whole.run), "");
  EXPECT_FALSE(fs::exists(original.folder()));
  EXPECT_EQ(files_naming(original.path(), copy), std::vector<std::string>{});
}

}  // namespace
}  // namespace lmtrain::testing
