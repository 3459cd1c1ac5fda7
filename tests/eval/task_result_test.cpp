#include "eval/task_result.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lmtrain {
namespace {

TEST(TaskResult, AccuracyIsBySumOrByToken) {
  Task task;
  task.records = {{"f:1", {"a", "b", "c"}, "q", 0, {}}};
  TaskQuestion question;
  question.rows.resize(3);
  question.answers = {1, 2, 2};
  question.gold_tokens = 2;
  question.gold_bytes = 5;
  // Sums -2, -3, -3; means -2, -1.5, -1.5. The first token of the gold row is of its answer alone.
  const std::vector<RowScore> scores = {
      {{-8.0F, -2.0F}, false}, {{-1.0F, -2.0F}, false}, {{-2.0F, -1.0F}, false}};
  const auto right_with = [&](int64_t gold) {
    task.records[0].gold = gold;
    return question_result(task, 0, question, scores);
  };
  EXPECT_TRUE(right_with(0).is_right);
  EXPECT_FALSE(right_with(0).is_right_norm);
  EXPECT_EQ(right_with(0).nats, 10);
  EXPECT_EQ(right_with(0).bytes, 5);
  EXPECT_FALSE(right_with(1).is_right);
  EXPECT_TRUE(right_with(1).is_right_norm) << "the first of two equal ones";
  EXPECT_FALSE(right_with(2).is_right_norm);
}

TEST(TaskResult, LanguageModellingIsRightWhereTheModelWouldWriteIt) {
  Task task;
  task.type = TaskType::kLanguageModelling;
  task.records = {{"f:1", {"c"}, "d", 0, {}}};
  TaskQuestion question;
  question.answers = {1};
  question.gold_tokens = 1;
  question.gold_bytes = 1;
  for (const bool is_greedy : {true, false}) {
    const std::vector<RowScore> scores = {{{-1.0F}, is_greedy}};
    const QuestionResult result = question_result(task, 0, question, scores);
    EXPECT_EQ(result.is_right, is_greedy);
    EXPECT_EQ(result.is_right_norm, is_greedy);
  }
}

TEST(TaskResult, EstimatesHaveStandardErrors) {
  Task task;
  task.name = "t";
  task.num_shots = 2;
  task.chance = 0.25;
  // 4 records: 3 right, 2 by token; nats 1 2 3 4, bytes 2 2 4 8.
  const std::vector<QuestionResult> results = {{true, true, 1, 2, false},
                                               {true, false, 2, 2, true},
                                               {true, true, 3, 4, false},
                                               {false, false, 4, 8, false}};
  const TaskResult result = task_result(task, results);
  EXPECT_EQ(result.name, "t");
  EXPECT_EQ(result.shots, 2);
  EXPECT_EQ(result.records, 4);
  EXPECT_EQ(result.truncated, 1);
  EXPECT_DOUBLE_EQ(result.accuracy.value, 0.75);
  EXPECT_DOUBLE_EQ(result.accuracy.standard_error, std::sqrt(0.75 * 0.25 / 3));
  EXPECT_DOUBLE_EQ(result.accuracy_norm.value, 0.5);
  EXPECT_DOUBLE_EQ(result.centred.value, 0.25 / 0.75);
  EXPECT_DOUBLE_EQ(result.centred.standard_error, std::sqrt(0.25 / 3) / 0.75);
  const double bits = 10 / std::log(2.0) / 16;
  EXPECT_DOUBLE_EQ(result.bits_per_byte.value, bits);
  double squares = 0;
  for (const QuestionResult& one : results) {
    const double residual = one.nats / std::log(2.0) - bits * static_cast<double>(one.bytes);
    squares += residual * residual;
  }
  EXPECT_NEAR(result.bits_per_byte.standard_error, std::sqrt(4 * squares / 3) / 16, 1e-12);

  const TaskResult of_one = task_result(task, {results[0]});
  EXPECT_TRUE(std::isnan(of_one.accuracy.standard_error));
  EXPECT_TRUE(std::isnan(of_one.bits_per_byte.standard_error));
}

TEST(TaskResult, CentredMeanTakesTasksAsIndependent) {
  std::vector<TaskResult> tasks(2);
  tasks[0].centred = {0.5, 0.3};
  tasks[1].centred = {0.1, 0.4};
  EXPECT_DOUBLE_EQ(centred_mean(tasks).value, 0.3);
  EXPECT_DOUBLE_EQ(centred_mean(tasks).standard_error, 0.25);
}

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
