// `lmtrain eval --tasks` gives the results of a transformers reference by nanochat's rules
// (tests/reference/tasks).
#include <gtest/gtest.h>

#include <cmath>

#include "e2e/errors/error_case.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kTasks = LMTRAIN_SOURCE_DIR "/tests/reference/tasks";

Json results_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"eval"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.emplace_back("--json");
  const ProcessResult result = lmtrain(command);
  EXPECT_EQ(result.exit_code, 0) << result;
  return Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
}

void expect_near(const Json& actual, const Json& expected) {
  ASSERT_EQ(field_names(actual), field_names(expected));
  for (const auto& [key, value] : expected.items()) {
    if (value.is_number_float()) {
      EXPECT_NEAR(actual.at(key).get<double>(), value.get<double>(), 1e-5) << key << actual;
    } else {
      EXPECT_EQ(actual.at(key), value) << key << actual;
    }
  }
}

TEST(Tasks, EqualTheReference) {
  const Json expected = Json::parse(read_text(kTasks / "results.json"));
  for (const char* batch : {"64", "8192"}) {
    const Json all =
        results_of({kHfFolder.string(), "--tasks", kTasks.string(), "--batch-tokens", batch});
    EXPECT_EQ(field_names(all),
              (std::vector<std::string>{"tasks", "centred_mean", "centred_mean_stderr", "target",
                                        "checkpoint", "step"}));
    EXPECT_EQ(all.at("checkpoint"), kHfFolder.string());
    EXPECT_TRUE(all.at("step").is_null());
    EXPECT_EQ(all.at("target"), kHfFolder.string());
    ASSERT_EQ(all.at("tasks").size(), expected.size());
    double centred = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_near(all.at("tasks")[i], expected[i]);
      centred += expected[i].at("centred").get<double>();
    }
    EXPECT_NEAR(all.at("centred_mean"), centred / static_cast<double>(expected.size()), 1e-12);
  }
}

TEST(Tasks, OneFileIsATask) {
  const Json all =
      results_of({kHfFolder.string(), "--tasks", (kTasks / "greedy_0.jsonl").string()});
  ASSERT_EQ(all.at("tasks").size(), 1U);
  EXPECT_EQ(all.at("tasks")[0].at("name"), "greedy_0");
  EXPECT_EQ(all.at("tasks")[0].at("type"), "language_modeling");
}

TEST(Tasks, NameThatIsNoUtf8LeavesJson) {
  const Workspace workspace;
  const std::string path = workspace.write("a\xff.jsonl", read_text(kTasks / "greedy_0.jsonl"));
  const Json all = results_of({kHfFolder.string(), "--tasks", path});
  ASSERT_TRUE(all.is_object());
  EXPECT_EQ(all.at("tasks")[0].at("name"), "a\ufffd");
}

TEST(Tasks, OfOurOwnAreATableForPeople) {
  const ProcessResult result =
      lmtrain({"eval", reference().run.path(), "--tasks", LMTRAIN_SOURCE_DIR "/data/tasks"});
  EXPECT_EQ(result.exit_code, 0) << result;
  for (const char* word : {"task ", "per token", "capitals", "agreement", "completions", "mean"})
    EXPECT_NE(result.out.find(word), std::string::npos) << result;
  // The prompts do not fit into the model of the test.
  EXPECT_NE(result.err.find("were cut at their beginning to "), std::string::npos) << result;
}

std::vector<ErrorCase> task_cases() {
  const std::string hf = kHfFolder.string();
  return {
      command_case("TasksMissing", 2, {"eval", hf, "--tasks", "no/such"},
                   {"no/such", "does not exist"}),
      command_case("TasksWithoutAList", 2, {"eval", hf, "--tasks", "data/sample"},
                   {"data/sample", "tasks.json"}),
      command_case("TasksEmptyPath", 2, {"eval", hf, "--tasks", ""}, {"--tasks", "a path"}),
      command_case("TasksAndScore", 2, {"eval", hf, "--tasks", "a", "--score", "b"},
                   {"--tasks", "--score"}),
      {"TasksDamagedRecord",
       3,
       {"t.jsonl:2", "\"gold\""},
       [hf](const Workspace& workspace) {
         const std::string path =
             workspace.write("t.jsonl",
                             "{\"query\":\"a\",\"choices\":[\"b\",\"c\"],\"gold\":1}\n"
                             "{\"query\":\"a\",\"choices\":[\"b\",\"c\"],\"gold\":2}\n");
         return Arguments{"eval", hf, "--tasks", path};
       }},
      {"TasksLongAnswer",
       3,
       {"t.jsonl:1", "the model takes 64"},
       [hf](const Workspace& workspace) {
         const std::string answer(200, 'q');
         return Arguments{"eval", hf, "--tasks",
                          workspace.write("t.jsonl", "{\"context\":\"a\",\"continuation\":\"" +
                                                         answer + "\"}\n")};
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Tasks, Errors, ::testing::ValuesIn(task_cases()), case_name);

}  // namespace
}  // namespace lmtrain::testing
