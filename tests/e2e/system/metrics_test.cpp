// metrics.jsonl, events.jsonl, status.json and trial.json damaged: a resume mends what it can, says
// what is lost, and never ends as a bug of ours.
#include <gtest/gtest.h>

#include <fstream>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// The updates in the file, in its order.
std::vector<int64_t> update_steps(const RunDir& run) {
  std::vector<int64_t> steps;
  for (const Json& line : run.metrics()) {
    if (line.contains("loss")) steps.push_back(line.at("step"));
  }
  return steps;
}

std::vector<int64_t> all_but(int64_t first, int64_t last) {
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= 40; ++step) {
    if (step < first || step > last) steps.push_back(step);
  }
  return steps;
}

void replace_line(const RunDir& run, const std::string& beginning, const std::string& instead) {
  const fs::path file = run.folder() / "metrics.jsonl";
  std::string text = read_text(file);
  const size_t begin = text.find(beginning);
  ASSERT_NE(begin, std::string::npos);
  text.replace(begin, text.find('\n', begin) - begin, instead);
  replace_file(file, text);
}

TEST(Metrics, DamagedLinesAreTakenOutSaidAndKept) {
  for (const std::string& instead : {std::string(60, '\0'), std::string("{\"step\":5,\"tok")}) {
    const RunDir run = copy_of_stopped_run("damaged metrics");
    replace_line(run, "{\"step\":5,", instead);
    const std::string damaged = read_text(run.folder() / "metrics.jsonl");
    const ProcessResult resumed = resume(run);
    EXPECT_EQ(resumed.exit_code, 0) << resumed;
    EXPECT_NE(resumed.err.find("warning: " + (run.folder() / "metrics.jsonl").string() +
                               " is damaged: 1 line taken out; the lines of updates 5 are lost"),
              std::string::npos)
        << resumed;
    EXPECT_EQ(update_steps(run), all_but(5, 5));
    EXPECT_EQ(read_text(run.folder() / "metrics.jsonl.damaged-1"), damaged);
    const std::vector<Json> events = run.events("metrics_damaged");
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].at("lost"), Json::parse("[[5,5]]"));
    EXPECT_EQ(events[0].at("dropped_lines"), 1);
    EXPECT_EQ(read_text(run.newest_checkpoint() / "model.safetensors"),
              read_text(reference().run.newest_checkpoint() / "model.safetensors"));
  }
}

TEST(Metrics, AMissingOrShortFileIsSaidOnce) {
  const RunDir run = copy_of_stopped_run("missing metrics");
  const int64_t step = run.checkpoint_steps().back();
  fs::remove(run.folder() / "metrics.jsonl");
  const auto stop_soon = [&](int64_t steps) {
    return lmtrain({"resume", run.path(), "--set", "train.steps=" + std::to_string(steps)});
  };
  ProcessResult resumed = stop_soon(step + 1);
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  const std::string lost = "the lines of updates 1 to " + std::to_string(step) + " are lost";
  EXPECT_NE(resumed.err.find("metrics.jsonl is missing; " + lost), std::string::npos) << resumed;
  EXPECT_EQ(update_steps(run), std::vector<int64_t>({step + 1}));
  resumed = stop_soon(step + 2);
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(resumed.err.find(lost), std::string::npos) << resumed;
  EXPECT_EQ(run.events("metrics_damaged").size(), 1U);
}

TEST(Metrics, ARunWithoutItsCheckpointsSaysWhatItHadAndKeepsIt) {
  const RunDir run = copy_of_stopped_run("no checkpoints");
  const std::string before = read_text(run.folder() / "metrics.jsonl");
  const int64_t saved = run.checkpoint_steps().back();
  fs::remove_all(run.folder() / "checkpoints");
  const ProcessResult resumed = resume(run);
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  for (const std::string& part : {std::string("begins again at step 0"),
                                  "no checkpoint in " + (run.folder() / "checkpoints").string(),
                                  "one of step " + std::to_string(saved) + " was saved",
                                  (run.folder() / "metrics.jsonl.before-restart").string()}) {
    EXPECT_NE(resumed.err.find(part), std::string::npos) << part << "\n" << resumed;
  }
  EXPECT_EQ(read_text(run.folder() / "metrics.jsonl.before-restart"), before);
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Metrics, DamagedStatusAndEventsAreNoTrouble) {
  const std::vector<std::string> texts = {
      "", "{", "[]", "null", "{\"state\":7,\"step\":\"x\"}", std::string(100, '\0'), "\xFF\xFE\n"};
  for (const std::string& text : texts) {
    for (const char* name : {"status.json", "events.jsonl"}) {
      SCOPED_TRACE(std::string(name) + ": " + text);
      // A finished run asks its status, a stopped one goes on.
      const RunDir done = reference().run.copy(reference().fresh("status"));
      replace_file(done.folder() / name, text);
      const ProcessResult finished = resume(done);
      EXPECT_EQ(finished.exit_code, 0) << finished;
      EXPECT_EQ(done.status().at("state"), "done");
      const RunDir run = copy_of_stopped_run("status");
      replace_file(run.folder() / name, text);
      const ProcessResult resumed =
          lmtrain({"resume", run.path(), "--set",
                   "train.steps=" + std::to_string(run.checkpoint_steps().back() + 1)});
      EXPECT_EQ(resumed.exit_code, 0) << resumed;
    }
  }
}

TEST(Metrics, ADamagedTrialIsExit3WithItsName) {
  const Json changes = {{"restart", {{"seeds", 2}, {"tokens", "5%"}}}, {"train", {{"steps", 20}}}};
  const Workspace workspace;
  const std::string config = workspace.config(changes);
  const RunDir made = train(config, workspace / "made");
  const fs::path trials = made.folder() / "trials";
  const fs::path trial = fs::directory_iterator(trials)->path() / "trial.json";
  const std::string whole = read_text(trial);
  const auto change = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& text :
       {std::string(), std::string("[]"), whole.substr(0, whole.size() / 2), std::string(50, '\0'),
        change("\"attempt\": 0", "\"attempt\": 9223372036854775807"),
        change("\"seed\": ", "\"seed\": 1"), change("\"seed\": ", "\"seed\": -"),
        change("\"reason\": \"", "\"reason\": \"\xFF")}) {
    replace_file(trial, text);
    const ProcessResult resumed = resume(made);
    EXPECT_EQ(resumed.exit_code, 3) << text << resumed;
    EXPECT_NE(resumed.err.find(trial.string()), std::string::npos) << text << resumed;
  }
}

}  // namespace
}  // namespace lmtrain::testing
