// Pipes and endless devices where files should be: each is named, or made anew where it can be, and
// nothing waits or reads without end.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

constexpr double kSeconds = 60;  // a program that waits fails the test then

void replace_by(const std::string& kind, const fs::path& file) {
  fs::remove(file);
  if (kind == "pipe") {
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  } else {
    fs::create_symlink("/dev/zero", file);
  }
}

fs::path only_file(const fs::path& folder, const std::string& ending) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) return entry.path();
  }
  ADD_FAILURE() << "no " << ending << " in " << folder;
  return {};
}

TEST(NoFile, InARunIsNamed) {
  for (const char* kind : {"pipe", "device"}) {
    for (const char* name : {"config.json", "metrics.jsonl", "events.jsonl"}) {
      SCOPED_TRACE(std::string(kind) + " " + name);
      const RunDir run = copy_of_stopped_run("no file");
      replace_by(kind, run.folder() / name);
      const ProcessResult resumed = LmtrainProcess({"resume", run.path()}).wait(kSeconds);
      EXPECT_EQ(resumed.exit_code, 3) << resumed;
      EXPECT_NE(resumed.err.find((run.folder() / name).string() + " is a "), std::string::npos)
          << resumed;
      fs::remove_all(run.folder());
    }
  }
}

TEST(NoFile, InACheckpointIsDamage) {
  for (const char* name : {"manifest.json", "model.safetensors", "state.json"}) {
    const RunDir run = copy_of_stopped_run("no file");
    const fs::path file = run.newest_checkpoint() / name;
    replace_by("pipe", file);
    const ProcessResult resumed = LmtrainProcess({"resume", run.path()}).wait(kSeconds);
    EXPECT_EQ(resumed.exit_code, 0) << resumed;
    EXPECT_NE(resumed.err.find("damaged checkpoint passed over: " + file.string()),
              std::string::npos)
        << resumed;
    EXPECT_EQ(difference(run, reference().run), "");
  }
}

TEST(NoFile, InAStatusOrACacheIsMadeAnew) {
  for (const char* kind : {"pipe", "device"}) {
    for (const char* ending : {"status.json", "shards/*/info.json", "train.bin", "index/*.json"}) {
      SCOPED_TRACE(std::string(kind) + " " + ending);
      const Json changes = {{"train", {{"steps", 3}}}, {"eval", {{"every", 0}}}};
      const Workspace workspace;
      const std::string config = workspace.config(changes);
      const RunDir expected = train(config, workspace / "expected");
      const RunDir run = expected.copy(workspace / "run");
      const std::string name = fs::path(ending).filename().string();
      fs::path file = run.folder() / name;
      if (name == "info.json" || name == "train.bin")
        file = only_file(workspace / "cache/shards", name);
      if (name == "*.json") file = only_file(workspace / "cache/index", ".json");
      replace_by(kind, file);
      // The last step is trained again.
      fs::remove_all(run.newest_checkpoint());
      const ProcessResult resumed = LmtrainProcess({"resume", run.path()}).wait(kSeconds);
      EXPECT_EQ(resumed.exit_code, 0) << resumed;
      EXPECT_EQ(difference(run, expected), "");
      EXPECT_TRUE(fs::is_regular_file(file));
    }
  }
}

TEST(NoFile, TypedIsNamedAndAConfigMayBeAPipe) {
  const Workspace workspace;
  const fs::path pipe = workspace / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto expect_named = [&](const Json& changes, int code) {
    const ProcessResult result =
        LmtrainProcess({"prepare", workspace.config(changes)}).wait(kSeconds);
    EXPECT_EQ(result.exit_code, code) << result;
    EXPECT_NE(result.err.find(pipe.string()), std::string::npos) << result;
    EXPECT_NE(result.err.find("a pipe"), std::string::npos) << result;
  };
  expect_named({{"data", {{"train", {pipe.string()}}}}}, 2);
  expect_named({{"tokenizer", {{"model", pipe.string()}}}}, 3);

  const std::string config = workspace.config({{"train", {{"steps", 1}}}});
  const auto shell = [&](const std::string& command) {
    return Process({"/bin/bash", "-c", lmtrain_binary() + " " + command}, on_one_core({}))
        .wait(kSeconds);
  };
  const ProcessResult substituted =
      shell("train <(cat " + config + ") --run-dir " + (workspace / "substituted").string());
  EXPECT_EQ(substituted.exit_code, 0) << substituted;
  const ProcessResult piped = shell("config show /proc/self/fd/0 < <(cat " + config + ")");
  EXPECT_EQ(piped.exit_code, 0) << piped;
  const ProcessResult endless = shell("config show /dev/zero");
  EXPECT_EQ(endless.exit_code, 3) << endless;
  EXPECT_NE(endless.err.find("/dev/zero holds more than"), std::string::npos) << endless;
}

// Exactly what `data.train: ["/"]` used to end with was "filesystem error: status".
TEST(NoFile, TheRootOfTheFileSystemIsRefused) {
  const Workspace workspace;
  const ProcessResult result =
      LmtrainProcess({"prepare", workspace.config({{"data", {{"train", {"/"}}}}})}).wait(kSeconds);
  EXPECT_TRUE(result.exit_code == 2 || result.exit_code == 5) << result;
  EXPECT_EQ(result.err.find("filesystem error"), std::string::npos) << result;
}

}  // namespace
}  // namespace lmtrain::testing
