#include "eval/task_report.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lmtrain {
namespace {

std::vector<TaskResult> two_results() {
  std::vector<TaskResult> tasks(2);
  tasks[0] = {"capitals",  TaskType::kMultipleChoice,
              2,           30,
              0.25,        {0.5, 0.0928},
              {0.4, 0.09}, {0.2, 0.12},
              {3.5, 0.25}, 1};
  tasks[1] = {"a\tb",      TaskType::kLanguageModelling,
              0,           1,
              0,           {0.0, NAN},
              {0.0, NAN},  {0.0, NAN},
              {12.5, NAN}, 0};
  return tasks;
}

TEST(TaskReport, JsonHasEveryEstimateWithItsError) {
  const auto json = nlohmann::json::parse(tasks_as_json(two_results()).dump());
  const auto& first = json.at("tasks").at(0);
  EXPECT_EQ(first.at("name"), "capitals");
  EXPECT_EQ(first.at("type"), "multiple_choice");
  EXPECT_EQ(first.at("shots"), 2);
  EXPECT_EQ(first.at("records"), 30);
  EXPECT_EQ(first.at("truncated"), 1);
  EXPECT_EQ(first.at("chance"), 0.25);
  EXPECT_EQ(first.at("accuracy"), 0.5);
  EXPECT_EQ(first.at("accuracy_stderr"), 0.0928);
  EXPECT_EQ(first.at("accuracy_norm"), 0.4);
  EXPECT_EQ(first.at("centred_stderr"), 0.12);
  EXPECT_EQ(first.at("bits_per_byte"), 3.5);
  EXPECT_TRUE(json.at("tasks").at(1).at("accuracy_stderr").is_null());
  EXPECT_EQ(json.at("centred_mean"), 0.1);
  EXPECT_TRUE(json.at("centred_mean_stderr").is_null());
}

TEST(TaskReport, TextIsATable) {
  EXPECT_EQ(
      tasks_as_text(two_results()),
      "task      records  shots       accuracy      per token        centred  bits per byte\n"
      "capitals       30      2  0.500 ± 0.093  0.400 ± 0.090  0.200 ± 0.120  3.500 ± 0.250\n"
      "a\\tb            1      0          0.000          0.000          0.000         12.500\n"
      "mean                                                            0.100\n");
}

}  // namespace
}  // namespace lmtrain
