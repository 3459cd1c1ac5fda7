// What lmtrain chooses where a config leaves it the choice: train.time, model.size and the recipe.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "e2e/ranks.h"
#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

// Text, a tokenizer, and nothing of what the recipe chooses.
std::string left_open(const Workspace& workspace, const Json& changes) {
  Json config = Json::parse(R"({
    "threads": 1, "precision": "fp32",
    "tokenizer": {"model": "tests/reference/tokenizer/tokenizer.model"},
    "data": {"train": ["data/sample"], "eval": ["data/sample.jsonl"]},
    "sequence": {"max_length": 64, "min_length": 16}
  })");
  config["data"]["cache_dir"] = (workspace / "cache").string();
  config.merge_patch(changes);
  return workspace.write("own.json", config.dump());
}

Json config_of(const RunDir& run) { return Json::parse(read_text(run.folder() / "config.json")); }

// Returns the run that the own config of `run` makes, in a new folder.
RunDir made_again(const Workspace& workspace, const RunDir& run) {
  const std::string own = (run.folder() / "config.json").string();
  const RunDir again(workspace / "again");
  const ProcessResult result = lmtrain({"train", own, "--run-dir", again.path()});
  EXPECT_EQ(result.exit_code, 0) << result;
  return again;
}

TEST(Choices, ATimeBecomesTokensThatTheRunKeeps) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  const std::string config = left_open(workspace, {{"train", {{"time", "4s"}}}});
  const ProcessResult trained = lmtrain({"train", config, "--run-dir", run.path()});
  ASSERT_EQ(trained.exit_code, 0) << trained;
  EXPECT_NE(trained.err.find("train.time 4s: "), std::string::npos) << trained;
  EXPECT_NE(trained.err.find("chosen"), std::string::npos) << trained;
  const Json kept = config_of(run);
  EXPECT_TRUE(kept.at("train").at("time").is_null());
  EXPECT_TRUE(kept.at("model").at("size").is_null());
  EXPECT_EQ(kept.at("optimizer").at("type"), "muon");
  const int64_t tokens = kept.at("train").at("tokens");
  EXPECT_GE(run.status().at("tokens"), tokens);
  EXPECT_EQ(run.status().at("state"), "done");

  // The schedule ends where the run does: from the last change of the length on, the rate falls in
  // a line, and the last step is one step before nothing.
  std::vector<double> rates;
  for (const Json& line : run.metrics())
    if (line.contains("lr")) rates.push_back(line.at("lr"));
  const Json& changes = kept.at("train").at("replanned_at");
  const int64_t last_change = changes.empty() ? 0 : changes.back().get<int64_t>();
  const auto num_rates = static_cast<int64_t>(rates.size());
  ASSERT_EQ(num_rates, run.status().at("step"));
  ASSERT_LT(last_change, num_rates);
  const double highest = *std::max_element(rates.begin() + last_change, rates.end());
  EXPECT_LT(rates.back() * static_cast<double>(num_rates - last_change), 1.5 * highest);

  // The same run again, by the run's own config: nothing is measured or chosen.
  const RunDir again(workspace / "again");
  const ProcessResult repeated =
      lmtrain({"train", (run.folder() / "config.json").string(), "--run-dir", again.path()});
  ASSERT_EQ(repeated.exit_code, 0) << repeated;
  EXPECT_EQ(repeated.err.find("train.time"), std::string::npos) << repeated;
  EXPECT_EQ(difference(again, run), "");

  const ProcessResult changed = lmtrain({"resume", run.path(), "--set", "train.time=1h"});
  EXPECT_EQ(changed.exit_code, 2) << changed;
  EXPECT_NE(changed.err.find("give train.tokens"), std::string::npos) << changed;

  const ProcessResult edited =
      lmtrain({"train", left_open(workspace, {{"train", {{"time", "9h"}}}}), "--run-dir",
               run.path(), "--continue"});
  EXPECT_EQ(edited.exit_code, 0) << edited;
  EXPECT_NE(edited.err.find("not chosen again: train.time 9h; for another length: lmtrain resume"),
            std::string::npos)
      << edited;
}

// A job queue starts the same command until the run is done.
TEST(Choices, TheSameCommandGoesOnWithWhatItChose) {
  const Workspace workspace;
  const auto begin_and_go_on = [&](const std::string& name,
                                   const std::vector<std::string>& overrides,
                                   const std::string& left) {
    const RunDir run(workspace / name);
    std::vector<std::string> command = {"train", left_open(workspace, Json::object()), "--run-dir",
                                        run.path(), "--continue"};
    for (const std::string& override : overrides)
      command.insert(command.end(), {"--set", override});
    const ProcessResult begun = lmtrain(command);
    ASSERT_EQ(begun.exit_code, 0) << begun;
    const Json kept = config_of(run);
    const ProcessResult again = lmtrain(command);
    EXPECT_EQ(again.exit_code, 0) << again;
    EXPECT_NE(again.err.find("not chosen again: " + left), std::string::npos) << again;
    EXPECT_NE(again.err.find("is finished"), std::string::npos) << again;
    EXPECT_EQ(config_of(run), kept);
  };
  begin_and_go_on("keys", {"train.time=2s", "model.size=0.1M", "optimizer.lr=auto"},
                  "--set train.time=2s, --set model.size=0.1M, --set optimizer.lr=auto");
  begin_and_go_on("objects",
                  {R"(train={"time":"2s","max_time":"1h"})", R"(model={"size":"0.1M"})",
                   R"(optimizer={"lr":"auto"})"},
                  R"(--set train.time="2s", --set model.size="0.1M", --set optimizer.lr="auto")");
}

// The run's own config is the whole run, however often its length has changed to end in time.
TEST(Choices, ARunWithATimeIsMadeAgainByItsOwnConfig) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  const std::string config = left_open(workspace, {{"train", {{"time", "3s"}}}});
  ASSERT_EQ(lmtrain({"train", config, "--run-dir", run.path()}).exit_code, 0);
  EXPECT_EQ(difference(made_again(workspace, run), run), "");
}

// The other processes prepare data before rank 0 has chosen anything.
TEST(Choices, SeveralProcessesChooseAsOne) {
  const Workspace workspace;
  const Json exact = {{"sum", "exact"}, {"parts", 4}};
  // Whole rows of 64, and not of the 1024 that a row has unless it is chosen.
  const std::string config = left_open(workspace, {{"train", {{"time", "3s"}}},
                                                   {"sequence", {{"max_length", nullptr}}},
                                                   {"batch", {{"tokens", 384}}},
                                                   {"parallel", exact}});
  const RunDir run(workspace / "run");
  expect_all(lmtrain_as(2, {"train", config, "--run-dir", run.path()}), 0);
  EXPECT_EQ(run.status().at("state"), "done");
  EXPECT_EQ(difference(run, made_again(workspace, run)), "");
}

TEST(Choices, PlanAndTrainChooseTheSame) {
  const Workspace workspace;
  const std::string config =
      left_open(workspace, {{"train", {{"tokens", "20K"}}}, {"model", {{"size", "0.1M"}}}});
  const ProcessResult planned = lmtrain({"plan", config, "--json"});
  ASSERT_EQ(planned.exit_code, 0) << planned;
  const Json plan = Json::parse(planned.out);
  const RunDir run(workspace / "run");
  ASSERT_EQ(lmtrain({"train", config, "--run-dir", run.path()}).exit_code, 0);
  const Json kept = config_of(run);
  EXPECT_EQ(plan.at("batch_tokens"), kept.at("batch").at("tokens"));
  EXPECT_EQ(plan.at("steps"), run.status().at("step"));
  // Resumed by the command that began it, nothing is overlooked.
  const ProcessResult resumed = lmtrain({"train", config, "--run-dir", run.path(), "--continue"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(resumed.err.find("not taken"), std::string::npos) << resumed;
}

TEST(Choices, AGivenRateChoosesNothingAndSaysSo) {
  const Workspace workspace;
  const std::string config =
      left_open(workspace, {{"train", {{"steps", 2}}},
                            {"batch", {{"tokens", 256}}},
                            {"optimizer", {{"lr", 1e-3}}},
                            {"model", {{"hidden_size", 32}, {"num_hidden_layers", 1}}}});
  const RunDir run(workspace / "run");
  const ProcessResult trained = lmtrain({"train", config, "--run-dir", run.path()});
  ASSERT_EQ(trained.exit_code, 0) << trained;
  EXPECT_EQ(config_of(run).at("optimizer").at("type"), "adamw");
  EXPECT_NE(trained.err.find("optimizer.lr is given"), std::string::npos) << trained;
}

TEST(Choices, ShowSaysWhyAndIsComplete) {
  const Workspace workspace;
  const std::string config = left_open(workspace, {{"train", {{"tokens", "1M"}}}});
  const ProcessResult shown = lmtrain({"config", "show", config});
  ASSERT_EQ(shown.exit_code, 0) << shown;
  EXPECT_NE(shown.out.find("// chosen: "), std::string::npos) << shown;
  EXPECT_NE(shown.out.find("\"type\": \"muon\""), std::string::npos) << shown;
}

TEST(Choices, ShowSaysWhatAutoIsOnThisMachine) {
  const Workspace workspace;
  ProcessOptions options;
  options.env["ATEN_CPU_CAPABILITY"] = "avx2";
  const std::string config = left_open(workspace, {{"precision", nullptr}});
  const ProcessResult shown = lmtrain({"config", "show", config}, options);
  ASSERT_EQ(shown.exit_code, 0) << shown;
  for (const char* part : {"\"device\": \"auto\",  // here cpu, as no GPU can be used",
                           "\"precision\": \"auto\",  // here fp32, as the processor has no"})
    EXPECT_NE(shown.out.find(part), std::string::npos) << part << shown;
}

}  // namespace
}  // namespace lmtrain::testing
