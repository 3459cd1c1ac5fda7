// eval.tasks: the questions of `eval --tasks`, asked at each evaluation of a run.
#include <gtest/gtest.h>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

Json asked(const std::string& path = "data/tasks") {
  return {{"eval", {{"every", "20 steps"}, {"tasks", path}}},
          {"sequence", {{"max_length", 128}}},
          {"checkpoint", {{"every", "20 steps"}, {"keep", 10}}}};
}

TEST(TrainingTasks, HaveTheResultsOfEvalAndChangeNoBit) {
  const Reference& expected = reference(asked());
  const RunDir& run = expected.run;
  int evaluations = 0;
  for (const Json& line : run.metrics()) {
    if (!line.contains("eval_loss")) continue;
    ++evaluations;
    if (line.at("step") == 0) continue;  // no checkpoint
    const ProcessResult result = lmtrain(
        {"eval", run.checkpoint(line.at("step")).string(), "--tasks", "data/tasks", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result;
    const Json tasks = Json::parse(result.out);
    for (const Json& task : tasks.at("tasks")) {
      const std::string prefix = "task/" + task.at("name").get<std::string>() + "/";
      for (const char* figure : {"accuracy", "accuracy_norm", "centred"})
        EXPECT_EQ(line.at(prefix + figure), task.at(figure)) << prefix << figure;
      EXPECT_NEAR(line.at(prefix + "bits_per_byte").get<double>(),
                  task.at("bits_per_byte").get<double>(), 1e-5);
    }
    EXPECT_EQ(line.at("task/centred_mean"), tasks.at("centred_mean"));
  }
  EXPECT_EQ(evaluations, 3);

  Json without = asked();
  without["eval"].erase("tasks");
  const RunDir& plain = reference(without).run;
  EXPECT_EQ(read_text(run.checkpoint(40) / "model.safetensors"),
            read_text(plain.checkpoint(40) / "model.safetensors"));
  EXPECT_EQ(run.metrics().size(), plain.metrics().size());
}

TEST(TrainingTasks, WhatIsWrongIsToldBeforeAnythingIsWritten) {
  const Workspace workspace;
  const std::string run = (workspace / "run").string();
  const ProcessResult missing =
      lmtrain({"train", workspace.config(asked("no/such/tasks")), "--run-dir", run});
  EXPECT_EQ(missing.exit_code, 2) << missing;
  EXPECT_NE(missing.err.find("no/such/tasks"), std::string::npos) << missing;
  EXPECT_NE(missing.err.find("set eval.tasks to null"), std::string::npos) << missing;
  const std::string file =
      workspace.write("bad.jsonl",
                      "{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 0}\n"
                      "{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 2}\n");
  const ProcessResult wrong = lmtrain({"train", workspace.config(asked(file)), "--run-dir", run});
  EXPECT_EQ(wrong.exit_code, 3) << wrong;
  EXPECT_NE(wrong.err.find("bad.jsonl:2"), std::string::npos) << wrong;
  EXPECT_FALSE(std::filesystem::exists(run));
  const ProcessResult plan = lmtrain({"plan", workspace.config(asked(file))});
  EXPECT_NE(plan.out.find("bad.jsonl:2"), std::string::npos) << plan;
}

}  // namespace
}  // namespace lmtrain::testing
