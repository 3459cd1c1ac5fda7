// `lmtrain resume RUN --verify N` as a person calls it.
#include <gtest/gtest.h>

#include <csignal>

#include "base/file.h"
#include "e2e/ranks.h"
#include "e2e/references.h"
#include "e2e/tamper.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// Names, contents and times of all that is in the run folder, and the names beside it, hidden ones
// included.
std::map<std::string, std::string> everything_at(const RunDir& run) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(run.folder())) {
    const auto time = entry.last_write_time().time_since_epoch().count();
    files[entry.path().string()] =
        std::to_string(time) + (entry.is_regular_file() ? read_text(entry.path()) : "");
  }
  for (const auto& entry : fs::directory_iterator(run.folder().parent_path()))
    files[entry.path().string()];
  return files;
}

ProcessResult verify(const RunDir& run, const std::string& steps,
                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {"resume", run.path(), "--verify", steps};
  command.insert(command.end(), more.begin(), more.end());
  return lmtrain(command);
}

TEST(Verify, SaysEqualAndLeavesTheRunAsItIs) {
  const RunDir run = copy_of_stopped_run("verified");
  const int64_t newest = run.checkpoint_steps().back();
  const auto before = everything_at(run);
  const ProcessResult result = verify(run, "10");
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_TRUE(result.out.starts_with("equal: 10 steps after step " + std::to_string(newest) +
                                     ", straight on and with a resume after 5, in "))
      << result;
  EXPECT_EQ(result.err.find("lmtrain resume"), std::string::npos) << "how to go on: " << result;
  EXPECT_TRUE(everything_at(run) == before);
  // The run goes on as if nothing had been.
  ASSERT_EQ(resume(run).exit_code, 0);
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Verify, SaysWhyItVerifiesFewerSteps) {
  const RunDir run = copy_of_stopped_run("fewer");
  const ProcessResult result = verify(run, "1000000");
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find(" instead of 1000000: the run has no more after step "),
            std::string::npos)
      << result;
  EXPECT_EQ(verify(run, "2").err.find("instead of"), std::string::npos);
}

TEST(Verify, PrintsOneDocument) {
  const RunDir run = copy_of_stopped_run("document");
  const ProcessResult result = verify(run, "4", {"--json"});
  EXPECT_EQ(result.exit_code, 0) << result;
  const Json document = Json::parse(result.out);
  EXPECT_EQ(field_names(document),
            (std::vector<std::string>{"equal", "from", "steps", "interrupted_after", "differences",
                                      "seconds"}));
  EXPECT_EQ(document.at("equal"), true);
  EXPECT_EQ(document.at("interrupted_after"), 2);
}

// While another process has the run's lock.
TEST(Verify, WorksBesideAProcessThatTrains) {
  const RunDir run = copy_of_stopped_run("locked");
  FileLock lock;
  ASSERT_TRUE(lock.try_acquire(run.folder() / ".lock"));
  EXPECT_EQ(verify(run, "4").exit_code, 0);
}

TEST(Verify, ASignalRemovesWhatItHasWritten) {
  const RunDir run = copy_of_stopped_run("signal");
  const auto before = everything_at(run);
  LmtrainProcess process({"resume", run.path(), "--verify", "20"});
  ASSERT_TRUE(
      process.wait_until([&] { return process.err().find("verifying") != std::string::npos; }));
  process.send(SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(everything_at(run) == before);
}

TEST(Verify, WhatAKilledOneHasLeftIsRemovedByTheNext) {
  const RunDir run = copy_of_stopped_run("killed");
  const auto before = everything_at(run);
  {
    LmtrainProcess process({"resume", run.path(), "--verify", "20"});
    ASSERT_TRUE(
        process.wait_until([&] { return process.err().find("verifying") != std::string::npos; }));
    process.send(SIGKILL);
    process.wait();
  }
  EXPECT_FALSE(everything_at(run) == before);
  EXPECT_EQ(verify(run, "4").exit_code, 0);
  EXPECT_TRUE(everything_at(run) == before);
}

TEST(Verify, OfARunWhoseFolderCannotHoldItUsesTmpdir) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const fs::path parent = reference().fresh("read only");
  const RunDir run = stopped_run().copy(parent / "run");
  fs::permissions(parent, fs::perms::owner_read | fs::perms::owner_exec);
  const ProcessResult result = verify(run, "4");
  fs::permissions(parent, fs::perms::owner_all);
  EXPECT_EQ(result.exit_code, 0) << result;
}

TEST(Verify, WorksWithSeveralProcesses) {
  const RunDir run(reference().fresh("two"));
  const std::vector<std::string> changes = {"--set", "train.steps=20", "--set",
                                            R"(parallel={"sum": "exact", "parts": 4})"};
  std::vector<std::string> command = {"train", reference().config, "--run-dir", run.path()};
  command.insert(command.end(), changes.begin(), changes.end());
  for (const ProcessResult& result : lmtrain_as(2, command))
    ASSERT_EQ(result.exit_code, 0) << result;
  const auto before = everything_at(run);
  const std::vector<ProcessResult> results = lmtrain_as(2, {"resume", run.path(), "--verify", "6"});
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_TRUE(results[0].out.starts_with("equal: ")) << results[0];
  EXPECT_EQ(results[1].out, "");
  EXPECT_TRUE(everything_at(run) == before);
}

TEST(Verify, RefusesWhatItCannotDo) {
  const RunDir run = copy_of_stopped_run("refused");
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--from", "3"}, {"--run-dir", "elsewhere"}}) {
    EXPECT_EQ(verify(run, "4", more).exit_code, 2) << more[0];
  }
  const ProcessResult one = verify(run, "1");
  EXPECT_EQ(one.exit_code, 2) << one;
  EXPECT_NE(one.err.find("at least 2"), std::string::npos) << one;
  for (const int64_t step : run.checkpoint_steps())
    flip_bit(run.checkpoint(step) / "model.safetensors", -1);
  EXPECT_EQ(verify(run, "4").exit_code, 3);
}

}  // namespace
}  // namespace lmtrain::testing
