// The results of a model in a task, and how `lmtrain eval --tasks` prints them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "eval/scored_row.h"
#include "eval/task.h"
#include "eval/task_question.h"

namespace lmtrain {

// A mean over records, or a ratio of two sums over records. The standard error is NaN for a single
// record.
struct Estimate {
  double value = 0;
  double standard_error = 0;
};

// The answer of a model to one record. In language modelling both flags say whether each token of
// the continuation is the likeliest. `nats` and `bytes` count the gold answer.
struct QuestionResult {
  bool is_right = false;       // the gold option has the largest log-probability
  bool is_right_norm = false;  // the same per scored token: the accuracy of DCLM CORE
  double nats = 0;
  int64_t bytes = 0;
  bool is_truncated = false;
};
// Returns the answer from `scores`, the scores of the question's rows. Of equal options the first
// counts.
QuestionResult question_result(const Task& task, size_t index, const TaskQuestion& question,
                               std::span<const RowScore> scores);

struct TaskResult {
  std::string name;
  TaskType type = TaskType::kMultipleChoice;
  int64_t shots = 0;
  int64_t records = 0;
  double chance = 0;
  Estimate accuracy;
  Estimate accuracy_norm;
  Estimate centred;        // (accuracy_norm - chance) / (1 - chance)
  Estimate bits_per_byte;  // all nats of gold answers / (ln 2 x all their bytes)
  int64_t truncated = 0;   // records with a prompt that was cut
};
// Returns the result of a task. Requires one result a record, and at least one record. The standard
// error of a mean is the sample deviation / sqrt(n); of bits per byte, by the delta method.
TaskResult task_result(const Task& task, const std::vector<QuestionResult>& results);

// Returns the mean of `centred` over the tasks: DCLM's CORE for the tasks of CORE. The error
// assumes independent tasks. Requires at least one task.
Estimate centred_mean(const std::vector<TaskResult>& tasks);

// Returns {"tasks": [...], "centred_mean": ..., "centred_mean_stderr": ...}. A task has the members
// of TaskResult by name, an Estimate as NAME and NAME_stderr. An unknown number is NaN, which
// dump() writes as null.
nlohmann::ordered_json tasks_as_json(const std::vector<TaskResult>& tasks);
// Returns a table for people, a line for each task and one for the mean. Requires at least one
// task.
std::string tasks_as_text(const std::vector<TaskResult>& tasks);

}  // namespace lmtrain
