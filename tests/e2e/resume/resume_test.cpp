// What `resume` and `train` do with run folders in every state.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "base/file.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// But for the log, which says that someone came.
std::map<std::string, std::string> contents_but_log(const fs::path& folder) {
  auto files = contents(folder);
  files.erase("train.log");
  return files;
}

std::vector<std::string> names(const std::map<std::string, std::string>& files) {
  std::vector<std::string> result;
  for (const auto& [name, text] : files) result.push_back(name);
  return result;
}

void expect_same_contents(const fs::path& folder,
                          const std::map<std::string, std::string>& before) {
  const auto after = contents_but_log(folder);
  EXPECT_EQ(names(after), names(before));
  for (const auto& [name, text] : after) {
    if (before.contains(name)) {
      EXPECT_EQ(text, before.at(name)) << name;
    }
  }
}

RunDir stop_after(const Reference& of, const std::string& name, int64_t step) {
  return interrupted_run(of, name, SIGTERM, step);
}

TEST(Resume, TwoRunsAreBitIdentical) {
  const RunDir again = train(reference().config, reference().fresh("again"));
  EXPECT_EQ(difference(again, reference().run), "");
}

TEST(Resume, OfAFinishedRunSaysSoAndChangesNothing) {
  const RunDir run = reference().run.copy(reference().fresh("finished"));
  // A copy names its old path in config.json and status.json; its first resume puts in its own.
  ASSERT_EQ(lmtrain({"resume", run.path()}).exit_code, 0);
  const auto before = contents_but_log(run.folder());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"resume", run.path()},
        {"train", reference().config, "--run-dir", run.path(), "--continue"}}) {
    const ProcessResult result = lmtrain(command);
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_NE(result.err.find("is finished"), std::string::npos) << result;
    EXPECT_EQ(Json::parse(result.out), run.status());
    expect_same_contents(run.folder(), before);
  }
}

// Killed after the last checkpoint was published and before status.json said so.
TEST(Resume, OfAFinishedRunThatCouldNotSaySo) {
  const RunDir run = reference().run.copy(reference().fresh("silent"));
  Json status = run.status();
  status["state"] = "running";
  replace_file(run.folder() / "status.json", status.dump());
  const ProcessResult result = lmtrain({"resume", run.path()});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(run.status().at("state"), "done");
  EXPECT_EQ(Json::parse(result.out), run.status());
  EXPECT_EQ(difference(run, reference().run), "");
}

// A scheduler that starts it once more sees no failure, although the text is not there any more.
TEST(Resume, OfAFinishedRunWhoseTextIsGone) {
  const Workspace workspace;
  const std::string text = workspace.write("text.txt", read_text("data/sample.jsonl"));
  const std::string config = workspace.config({{"data", {{"train", {text}}}}});
  const RunDir run = train(config, workspace / "run");
  fs::rename(text, text + ".moved");
  const ProcessResult result = lmtrain({"resume", run.path()});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("is finished; its text is not there any more"), std::string::npos)
      << result;
  EXPECT_EQ(Json::parse(result.out).at("state"), "done");
  // A run that is to go on needs it; a link does.
  const std::vector<std::string> longer = {"resume", run.path(), "--set", "train.steps=50"};
  const ProcessResult refused = lmtrain(longer);
  EXPECT_EQ(refused.exit_code, 2) << refused;
  EXPECT_NE(refused.err.find("a link at the old path"), std::string::npos) << refused;
  fs::create_symlink(text + ".moved", text);
  EXPECT_EQ(lmtrain(longer).exit_code, 0);
}

TEST(Resume, OfARunWhoseGivenTokenizerIsGone) {
  const Reference& one = reference();
  const fs::path model = one.fresh("tokenizer.model");
  fs::copy_file(one.run.newest_checkpoint() / "tokenizer.model", model);
  const RunDir run(one.fresh("given tokenizer"));
  const std::vector<std::string> begin = {
      "train", one.config, "--run-dir", run.path(), "--set", "tokenizer.model=" + model.string()};
  ASSERT_EQ(lmtrain(begin).exit_code, 0);
  fs::remove(model);
  const ProcessResult done = lmtrain({"resume", run.path()});
  EXPECT_EQ(done.exit_code, 0) << done;
  EXPECT_NE(done.err.find("is finished; its tokenizer is not there any more"), std::string::npos)
      << done;
  const std::vector<std::string> longer = {"resume", run.path(), "--set", "train.steps=50"};
  const ProcessResult refused = lmtrain(longer);
  EXPECT_EQ(refused.exit_code, 2) << refused;
  const size_t command = refused.err.find("mkdir -p ");
  ASSERT_NE(command, std::string::npos) << refused;
  EXPECT_EQ(std::system(refused.err.substr(command).c_str()), 0) << refused;
  EXPECT_EQ(lmtrain(longer).exit_code, 0);
}

TEST(Resume, TrainOnARunIsRefused) {
  const RunDir run = stop_after(reference(), "refused", 12);
  const auto before = contents_but_log(run.folder());
  const ProcessResult refused = lmtrain({"train", reference().config, "--run-dir", run.path()});
  EXPECT_EQ(refused.exit_code, 2) << refused;
  EXPECT_NE(refused.err.find("lmtrain resume " + run.path()), std::string::npos) << refused;
  expect_same_contents(run.folder(), before);

  const ProcessResult resumed =
      lmtrain({"train", reference().config, "--run-dir", run.path(), "--continue"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_NE(resumed.err.find("resuming after step"), std::string::npos) << resumed;
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Resume, WithoutACheckpointBeginsAtStep0) {
  const RunDir run = stop_after(reference(), "no checkpoint", 5);
  fs::remove_all(run.folder() / "checkpoints");
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Resume, OfALockedRunIsRefused) {
  const RunDir run = stop_after(reference(), "locked", 5);
  FileLock lock;
  ASSERT_TRUE(lock.try_acquire(run.folder() / ".lock"));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"resume", run.path()},
        {"train", reference().config, "--run-dir", run.path(), "--continue"}}) {
    const ProcessResult refused = lmtrain(command);
    EXPECT_EQ(refused.exit_code, 2) << refused;
    EXPECT_NE(refused.err.find("locked by another lmtrain"), std::string::npos) << refused;
  }
}

TEST(Resume, OneOfTwoThatStartTogetherWins) {
  for (int round = 0; round < 3; ++round) {
    const RunDir run(reference().fresh("race"));
    const std::vector<std::string> command = {"train", reference().config, "--run-dir", run.path()};
    LmtrainProcess first(command);
    LmtrainProcess second(command);
    const ProcessResult a = first.wait();
    const ProcessResult b = second.wait();
    EXPECT_EQ(std::min(a.exit_code, b.exit_code), 0) << a << b;
    EXPECT_EQ(std::max(a.exit_code, b.exit_code), 2) << a << b;
    EXPECT_EQ(run.events("start").size(), 1U);
    EXPECT_EQ(difference(run, reference().run), "");
  }
}

TEST(Resume, ExtendsTheRun) {
  const RunDir run = reference().run.copy(reference().fresh("extended"));
  const ProcessResult extended = lmtrain({"resume", run.path(), "--set", "train.steps=50"});
  EXPECT_EQ(extended.exit_code, 0) << extended;
  EXPECT_EQ(run.status().at("step"), 50);
  EXPECT_EQ(run.checkpoint_steps().back(), 50);
  EXPECT_EQ(Json::parse(read_text(run.folder() / "config.json")).at("train").at("steps"), 50);
  int64_t step = 0;
  for (const Json& line : run.metrics()) {
    if (line.contains("loss")) {
      EXPECT_EQ(line.at("step"), ++step);
    }
  }
  EXPECT_EQ(step, 50);
  // The first 40 steps are those of the reference.
  const auto lines = run.metrics();
  const auto expected = reference().run.metrics();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(lines[i].value("loss", Json()), expected[i].value("loss", Json())) << i;
  }
  // An extended run, too, is resumed exactly.
  const RunDir killed = reference().run.copy(reference().fresh("extended and killed"));
  LmtrainProcess process({"resume", killed.path(), "--set", "train.steps=50"});
  ASSERT_TRUE(process.wait_until([&] { return killed.has_metrics_line("{\"step\":44,"); }));
  process.send(SIGKILL);
  process.wait();
  const ProcessResult resumed = lmtrain({"resume", killed.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  // Where in the run the extension was planned is the same whichever checkpoint was there.
  EXPECT_EQ(difference(killed, run), "");
}

TEST(Resume, StaysInItsFolder) {
  const RunDir& run = reference().run;
  const ProcessResult result = lmtrain({"resume", run.path(), "--set", "run_dir=elsewhere"});
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_NE(result.err.find("run_dir cannot change on resume; move the folder"), std::string::npos)
      << result;
  EXPECT_EQ(lmtrain({"resume", run.path(), "--set", "run_dir=" + run.path()}).exit_code, 0);
}

TEST(Resume, ShortensTheRun) {
  const RunDir run = stop_after(reference(), "shortened", 10);
  const ProcessResult shortened = lmtrain({"resume", run.path(), "--set", "train.steps=30"});
  EXPECT_EQ(shortened.exit_code, 0) << shortened;
  EXPECT_EQ(run.status().at("step"), 30);
}

// It is done at once, but its end has its evaluation all the same.
TEST(Resume, ShortenedBelowItsStepStillEvaluates) {
  const RunDir run(reference().fresh("shortened below"));
  LmtrainProcess process(
      {"train", reference().config, "--run-dir", run.path(), "--set", "eval.every=0"});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":20,"); }));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGTERM);
  const int64_t step = run.status().at("step");
  EXPECT_FALSE(run.metrics().back().contains("eval_loss"));
  const ProcessResult shortened = lmtrain({"resume", run.path(), "--set", "train.steps=15"});
  EXPECT_EQ(shortened.exit_code, 0) << shortened;
  EXPECT_NE(shortened.err.find("more than its new length: train.steps 15 counts from the first"),
            std::string::npos)
      << shortened;
  EXPECT_NE(shortened.err.find("run        ends after the " + std::to_string(step) + " steps"),
            std::string::npos)
      << shortened;
  EXPECT_EQ(shortened.err.find("run        about"), std::string::npos) << shortened;
  EXPECT_EQ(run.status().at("state"), "done");
  EXPECT_EQ(run.status().at("step"), step);
  EXPECT_EQ(run.metrics().back().at("step"), step);
  EXPECT_TRUE(run.metrics().back().contains("eval_loss"));
}

TEST(Resume, WhatMakesTheRunCannotChange) {
  const RunDir run = stop_after(reference(), "changed", 10);
  const auto before = contents_but_log(run.folder());
  for (const std::string change :
       {"seed=5", "model.hidden_size=64", "model.vocab_size=500",
        "data.train=\"data/sample.jsonl\"", "data.train.0.weight=2", "data.seed=3",
        "data.shuffle=false", "sequence.max_length=32", "sequence.batching=concat",
        "sequence.schedule={\"type\":\"constant\"}", "batch.tokens=512", "tokenizer.add_bos=false",
        "init_from=\"tests/reference/eval/hf\""}) {
    const ProcessResult refused = lmtrain({"resume", run.path(), "--set", change});
    EXPECT_EQ(refused.exit_code, 2) << change << refused;
    // Names the key; combinations that are wrong in themselves are found before.
    const std::string section = change.substr(0, change.find_first_of(".="));
    EXPECT_NE(refused.err.find(section), std::string::npos) << refused;
    expect_same_contents(run.folder(), before);
  }
}

TEST(Resume, OtherSettingsMayChange) {
  const RunDir run = stop_after(reference(), "other settings", 10);
  const ProcessResult resumed =
      lmtrain({"resume", run.path(), "--set", "checkpoint.every=7", "--set", "checkpoint.keep=1",
               "--set", "log.tensorboard=false", "--set", "eval.every=0"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(run.checkpoint_steps().size(), 1U);
  // Neither decides a bit of the weights.
  EXPECT_EQ(read_text(run.newest_checkpoint() / "model.safetensors"),
            read_text(reference().run.newest_checkpoint() / "model.safetensors"));
}

TEST(Resume, ChangedDataIsRefused) {
  const Workspace workspace;
  workspace.write("text/a.txt", std::string(3000, 'a') + "the text of the run");
  workspace.write("text/b.txt", "another document of the same run");
  const std::string config = workspace.config({{"data", {{"train", {workspace / "text"}}}}});
  const RunDir run = train(config, workspace / "run");
  workspace.write("text/b.txt", "this is no longer the same text");
  const ProcessResult refused = lmtrain({"resume", run.path(), "--set", "train.steps=50"});
  EXPECT_EQ(refused.exit_code, 3) << refused;
  const std::string change = (workspace / "text/b.txt").string();
  EXPECT_NE(refused.err.find("has changed: " + change + " has 31 bytes and had 32"),
            std::string::npos)
      << refused;
}

// Before it reads the text again, the program says which files are not what they were.
TEST(Resume, FilesThatWereWrittenToAreNamedAndTheirTextDecides) {
  const Workspace workspace;
  const std::string text = std::string(3000, 'a') + "the text of the run";
  const std::string file = workspace.write("text/a.txt", text);
  const std::string config = workspace.config({{"data", {{"train", {workspace / "text"}}}}});
  const RunDir run = train(config, workspace / "run");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  for (const bool is_named : {true, false}) {
    const ProcessResult resumed = lmtrain({"resume", run.path(), "--set", "train.steps=50"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed;
    EXPECT_EQ(resumed.err.find(file + " was written to") != std::string::npos, is_named) << resumed;
  }
}

TEST(Resume, MovedRunFolderGoesOn) {
  const RunDir run = stop_after(reference(), "before the move", 10);
  const RunDir moved(reference().fresh("after the move"));
  fs::rename(run.folder(), moved.folder());
  // From another folder, with a relative path.
  ProcessOptions options;
  options.cwd = moved.folder().parent_path();
  const ProcessResult resumed = lmtrain({"resume", moved.folder().filename()}, options);
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(moved, reference().run), "");
  EXPECT_EQ(moved.status().at("checkpoint"), moved.newest_checkpoint().string());
}

}  // namespace
}  // namespace lmtrain::testing
