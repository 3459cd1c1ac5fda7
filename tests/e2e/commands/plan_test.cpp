// What `lmtrain plan` says, against what the run then does.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

Json plan_of(const std::string& config, const std::vector<std::string>& options = {}) {
  std::vector<std::string> command = {"plan", config, "--json"};
  command.insert(command.end(), options.begin(), options.end());
  const ProcessResult result = lmtrain(command);
  EXPECT_EQ(result.exit_code, 0) << result;
  return Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
}

TEST(Plan, IsWhatTheRunDoes) {
  const std::vector<Json> runs = {
      Json::object(),
      {{"train", {{"steps", nullptr}, {"epochs", 2}}}, {"lr_schedule", {{"warmup", "10%"}}}},
      {{"sequence", {{"batching", "concat"}, {"schedule", {{"type", "constant"}}}}},
       {"eval", {{"every", "7%"}}},
       {"checkpoint", {{"every", 0}}}}};
  for (const Json& changes : runs) {
    const Reference& made = reference(changes);
    const Json plan = plan_of(made.config);
    ASSERT_TRUE(plan.is_object()) << changes;
    int64_t evaluations = 0;
    std::map<int64_t, int64_t> batches;
    std::vector<Json> updates;
    for (const Json& line : made.run.metrics()) {
      if (line.contains("eval_loss")) ++evaluations;
      if (!line.contains("seq_len")) continue;
      ++batches[line.at("seq_len").get<int64_t>()];
      updates.push_back(line);
    }
    EXPECT_EQ(plan.at("steps"), updates.size()) << changes;
    EXPECT_EQ(plan.at("evaluations"), evaluations) << changes;
    EXPECT_EQ(plan.at("checkpoints"), made.run.events("save").size()) << changes;
    for (const Json& length : plan.at("lengths")) {
      EXPECT_EQ(length.at("batches"), batches[length.at("length").get<int64_t>()]) << changes;
    }
    const bool epochs = changes.contains("train");
    const auto tokens = updates.back().at("tokens").get<double>();
    EXPECT_NEAR(plan.at("tokens").get<double>(), tokens, epochs ? 0 : 0.05 * tokens) << changes;
    EXPECT_EQ(plan.at("truncated_per_epoch"), 0);
    EXPECT_EQ(plan.at("targets_given"), plan.at("targets_per_epoch"));
    if (epochs) {
      EXPECT_EQ(plan.at("tokens"), 2 * plan.at("targets_given").get<int64_t>());
    }
    for (const Json& point : plan.at("learning_rate")) {
      const auto step = point.at("step").get<size_t>();
      ASSERT_LE(step, updates.size()) << point;
      const auto rate = updates[step - 1].at("lr").get<double>();
      // In an epochs run the position of a step is known up to its padding.
      EXPECT_NEAR(point.at("lr").get<double>(), rate, (epochs ? 0.02 : 1e-9) * 3e-3) << point;
    }
  }
}

TEST(Plan, EpochsAreADuration) {
  const Reference& made = reference({{"train", {{"steps", nullptr}, {"epochs", 2}}},
                                     {"eval", {{"every", "0.5 epochs"}}},
                                     {"checkpoint", {{"every", "1 epoch"}}},
                                     {"log", {{"every", "1 epoch"}}}});
  const Json plan = plan_of(made.config);
  const auto epoch = plan.at("targets_given").get<double>();
  int64_t evaluations = 0;
  for (const Json& line : made.run.metrics()) {
    if (!line.contains("eval_loss")) continue;
    // The first step at which so many halves are complete; a step has at most 256 targets.
    const double due = 0.5 * epoch * static_cast<double>(evaluations++);
    EXPECT_GE(line.at("tokens"), due);
    EXPECT_LT(line.at("tokens"), due + 256);
  }
  EXPECT_EQ(evaluations, 5);
  EXPECT_EQ(plan.at("evaluations"), 5);
  EXPECT_EQ(plan.at("checkpoints"), 2);
  EXPECT_EQ(made.run.events("save").size(), 2U);
}

TEST(Plan, ForPeople) {
  const std::string config = reference().config;
  const ProcessResult result = lmtrain({"plan", config});
  EXPECT_EQ(result.exit_code, 0) << result;
  for (const char* word : {"model", "lengths", "run", "cycles", "rate", "end of warm-up", "memory",
                           "activations", "40 steps", " 0 truncated"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word << result;
  }
  // A line a length, the longest on top, each as wide as the others: a column a batch here.
  std::vector<std::string> rows;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with("|")) rows.push_back(line);
  }
  const Json plan = plan_of(config);
  ASSERT_EQ(rows.size(), plan.at("lengths").size()) << result;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json& length = plan.at("lengths")[rows.size() - 1 - i];
    EXPECT_TRUE(rows[i].starts_with(length.at("length").dump())) << rows[i];
    EXPECT_EQ(std::count(rows[i].begin(), rows[i].end(), '#'), length.at("batches")) << rows[i];
    EXPECT_EQ(rows[i].size(), rows[0].size());
  }
}

TEST(Plan, TheMemoryIsOfOneOfSeveralProcesses) {
  const std::string divided = "parallel.shard=optimizer";
  const auto optimizer_of = [&](const std::vector<std::string>& options) {
    const Json plan = plan_of(reference().config, options);
    return plan.at("memory").at("optimizer").get<int64_t>();
  };
  const int64_t whole = optimizer_of({"--set", divided});
  EXPECT_EQ(optimizer_of({"--processes", "2", "--set", "parallel.shard=none"}), whole);
  const int64_t share = optimizer_of({"--processes", "2", "--set", divided});
  EXPECT_LT(share, whole);
  EXPECT_GE(2 * share, whole);
  EXPECT_EQ(lmtrain({"plan", reference().config, "--processes", "0"}).exit_code, 2);
}

TEST(Plan, WritesNothingButTheCache) {
  const Workspace workspace;
  const std::string config = workspace.config({{"run_dir", (workspace / "run").string()}});
  ASSERT_TRUE(plan_of(config).is_object());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(workspace / "")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"cache", "config.json"}));
}

// "124m" is 124 million parameters, and each preset trains on some 20 tokens for each of them.
TEST(Plan, EveryPresetHasTheSizeOfItsName) {
  const Workspace workspace;
  ProcessOptions options;
  options.env = {{"LMTRAIN_CORPUS", LMTRAIN_SOURCE_DIR "/data/sample"}};
  int num_presets = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(LMTRAIN_SOURCE_DIR "/configs/presets")) {
    const std::string name = entry.path().stem();
    const ProcessResult result = lmtrain(
        {"plan", entry.path(), "--json", "--set", "run_dir=" + (workspace / name).string(), "--set",
         "data.cache_dir=" + (workspace / "cache").string(), "--set",
         "tokenizer.model=" LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model"},
        options);
    ASSERT_EQ(result.exit_code, 0) << name << result;
    const Json plan = Json::parse(result.out);
    EXPECT_EQ(plan.at("name"), name);
    const double said = std::stod(name) * (name.ends_with("b") ? 1e9 : 1e6);
    const auto parameters = plan.at("parameters").get<double>();
    EXPECT_NEAR(parameters, said, 0.04 * said) << name;
    EXPECT_NEAR(plan.at("tokens").get<double>() / parameters, 20, 1) << name;
    ++num_presets;
  }
  EXPECT_EQ(num_presets, 9);
}

TEST(Plan, RefusesWhatTrainRefuses) {
  const Workspace workspace;
  const std::string wrong = workspace.config({{"batch", {{"tokens", 100}}}}, "wrong.json");
  EXPECT_EQ(lmtrain({"plan", wrong}).exit_code, 2);
  const std::string missing =
      workspace.config({{"data", {{"train", {"nowhere/*.txt"}}}}}, "missing.json");
  EXPECT_EQ(lmtrain({"plan", missing}).exit_code, 2);
  EXPECT_EQ(lmtrain({"plan"}).exit_code, 2);
}

}  // namespace
}  // namespace lmtrain::testing
