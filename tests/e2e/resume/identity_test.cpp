// Which checkpoints a run goes on from: its own alone. What a branch is that was killed.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "e2e/references.h"
#include "e2e/tamper.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

std::string id_of(const RunDir& run) {
  return Json::parse(read_text(run.folder() / "config.json")).at("identity").at("run");
}

void expect_parts(const ProcessResult& result, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << part << result;
}

TEST(Identity, IsInTheConfigAndEachCheckpoint) {
  const RunDir& run = reference().run;
  EXPECT_EQ(id_of(run).size(), 32U);
  EXPECT_NE(id_of(run), id_of(stopped_run()));
  for (const int64_t step : run.checkpoint_steps())
    EXPECT_EQ(run.state(step).at("run"), id_of(run));
}

TEST(Identity, AForeignCheckpointIsRefused) {
  const RunDir run = copy_of_stopped_run("foreign");
  fs::copy(reference().run.checkpoint(40), run.checkpoint(40), fs::copy_options::recursive);
  const std::string metrics = read_text(run.folder() / "metrics.jsonl");
  for (const char* command : {"resume", "eval"}) {
    const ProcessResult refused = lmtrain({command, run.path()});
    EXPECT_EQ(refused.exit_code, 3) << refused;
    expect_parts(refused, {run.checkpoint(40).string(), id_of(run), id_of(reference().run)});
  }
  EXPECT_EQ(read_text(run.folder() / "metrics.jsonl"), metrics);
  fs::remove_all(run.checkpoint(40));  // as the message says
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, reference().run), "");
}

// Its step is that of the manifest; the one before it is taken.
TEST(Identity, ARenamedCheckpointIsPassedOver) {
  const RunDir run = copy_of_stopped_run("renamed");
  const std::vector<int64_t> steps = run.checkpoint_steps();
  fs::rename(run.checkpoint(steps.back()), run.checkpoint(steps.back() + 5));
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  expect_parts(resumed, {"its manifest is of step " + std::to_string(steps.back()),
                         "resuming after step " + std::to_string(steps.end()[-2])});
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Identity, WhatIsLeftOfARunKeepsAnotherFromBeginning) {
  const RunDir run = copy_of_stopped_run("left");
  fs::remove(run.folder() / "config.json");
  const ProcessResult refused = lmtrain({"train", reference().config, "--run-dir", run.path()});
  EXPECT_EQ(refused.exit_code, 2) << refused;
  expect_parts(refused, {run.path(), "config.json is gone", "--run-dir"});
  EXPECT_FALSE(fs::exists(run.folder() / "config.json"));
}

// ---- Branches ----

Json twelve_steps() { return {{"train", {{"steps", 12}}}, {"checkpoint", {{"keep", 100}}}}; }

TEST(Identity, ABranchHasItsOwn) {
  const Reference& whole = reference(twelve_steps());
  const RunDir branch(whole.fresh("own"));
  const ProcessResult result =
      lmtrain({"resume", whole.run.path(), "--from", "6", "--run-dir", branch.path()});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(id_of(branch), id_of(whole.run));
  for (const int64_t step : branch.checkpoint_steps())
    EXPECT_EQ(branch.state(step).at("run"), id_of(branch)) << step;
  // Its beginning is the checkpoint, not step 0.
  fs::remove_all(branch.folder() / "checkpoints");
  const ProcessResult again = lmtrain({"resume", branch.path()});
  EXPECT_EQ(again.exit_code, 0) << again;
  expect_parts(again, {"begins at " + whole.run.checkpoint(6).string(), "resuming after step 6"});
  EXPECT_EQ(difference(branch, whole.run), "");
  // Where that is gone too, nothing is trained from other weights.
  const RunDir parent = whole.run.copy(whole.fresh("parent"));
  const RunDir orphan(whole.fresh("orphan"));
  ASSERT_EQ(lmtrain({"resume", parent.path(), "--from", "6", "--run-dir", orphan.path()}).exit_code,
            0);
  fs::remove_all(orphan.folder() / "checkpoints");
  fs::remove_all(parent.checkpoint(6));
  const ProcessResult refused = lmtrain({"resume", orphan.path()});
  EXPECT_EQ(refused.exit_code, 3) << refused;
  expect_parts(refused, {"is a branch that begins at " + parent.checkpoint(6).string(),
                         "lmtrain resume " + parent.path() + " --run-dir " + orphan.path()});
}

// Killed at calls spread over the whole branch, most of them while it is begun. LMTRAIN_FAULTS
// "2/5" takes the second of every five calls.
TEST(Identity, ABranchKilledAnywhereGoesOn) {
  const Reference& whole = reference(twelve_steps());
  const auto branch_to = [&](const RunDir& branch, long call, const fs::path& report) {
    ProcessOptions options;
    options.env = {
        {"LD_PRELOAD", LMTRAIN_FAULT_LIBRARY},  {"ASAN_OPTIONS", "verify_asan_link_order=0"},
        {"LMTRAIN_FAULT_BELOW", branch.path()}, {"LMTRAIN_FAULT_CALL", std::to_string(call)},
        {"LMTRAIN_FAULT_HOW", "kill"},          {"LMTRAIN_FAULT_REPORT", report.string()}};
    return lmtrain({"resume", whole.run.path(), "--from", "6", "--run-dir", branch.path()},
                   options);
  };
  const fs::path report = whole.fresh("report");
  const ProcessResult counted = branch_to(RunDir(whole.fresh("counted")), 0, report);
  ASSERT_EQ(counted.exit_code, 0) << counted;
  long calls = 0;
  std::ifstream(report) >> calls;
  ASSERT_GT(calls, 50);

  std::vector<long> chosen;
  if (const char* part = std::getenv("LMTRAIN_FAULTS")) {
    char* slash = nullptr;
    const long first = std::strtol(part, &slash, 10);
    const long step = std::strtol(slash + 1, nullptr, 10);
    for (long call = first; call <= calls; call += step) chosen.push_back(call);
  } else {
    for (long call = 4; call < 60; call += 8) chosen.push_back(call);
    for (long call = 60; call <= calls; call += (calls - 60) / 4 + 1) chosen.push_back(call);
  }
  int begun = 0;
  for (const long call : chosen) {
    SCOPED_TRACE("killed at call " + std::to_string(call));
    const RunDir branch(whole.fresh("killed"));
    const ProcessResult killed = branch_to(branch, call, report);
    EXPECT_EQ(killed.signal, SIGKILL) << killed;
    ProcessResult result = lmtrain({"resume", branch.path()});
    if (!fs::exists(branch.folder() / "config.json")) {
      EXPECT_EQ(result.exit_code, 2) << "it is no run yet" << result;
      result = lmtrain({"resume", whole.run.path(), "--from", "6", "--run-dir", branch.path()});
    } else {
      ++begun;
    }
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_EQ(difference(branch, whole.run), "");
    EXPECT_EQ(branch.state(12).at("run"), id_of(branch));
  }
  EXPECT_GT(begun, 3);
  std::cout << calls << " calls, killed at " << chosen.size() << " of them" << std::endl;
}

// ---- Given weights ----

TEST(Identity, GivenWeightsThatHaveChangedAreRefused) {
  const Reference& whole = reference();
  const fs::path weights = whole.fresh("weights");
  fs::copy(whole.run.newest_checkpoint(), weights, fs::copy_options::recursive);
  for (const char* file : {"manifest.json", "state.json", "optimizer.safetensors"})
    fs::remove(weights / file);  // a model, and no checkpoint with checksums
  const std::string config = whole.workspace.config({{"init_from", weights.string()},
                                                     {"tokenizer", nullptr},
                                                     {"model", nullptr},
                                                     {"train", {{"steps", 4}}}},
                                                    "given.json");
  const RunDir expected = train(config, whole.fresh("given"));
  const RunDir run = expected.copy(whole.fresh("again"));
  fs::remove_all(run.folder() / "checkpoints");
  flip_bit(weights / "model.safetensors", -1);
  const ProcessResult refused = lmtrain({"resume", run.path()});
  EXPECT_EQ(refused.exit_code, 3) << refused;
  expect_parts(refused, {weights.string(), "not those that the run began with"});
  flip_bit(weights / "model.safetensors", -1);
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, expected), "");
}

}  // namespace
}  // namespace lmtrain::testing
