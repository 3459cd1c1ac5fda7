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

// A mean over records, or a ratio of two sums over them. The standard error is NaN where one record
// alone tells nothing about it.
struct Estimate {
  double value = 0;
  double standard_error = 0;
};

// The answer of a model to one record. With language modelling both say whether each token of the
// continuation is the likeliest. `nats` and `bytes` count the gold answer.
struct QuestionResult {
  bool is_right = false;       // the gold option has the largest log-probability
  bool is_right_norm = false;  // ... and per scored token: the accuracy of DCLM CORE
  double nats = 0;
  int64_t bytes = 0;
  bool is_truncated = false;
};
// `scores` are the answers to the rows of the question. Of equal options the first is taken.
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
// Requires one result a record, and at least one. The standard error of a mean is the sample
// deviation / sqrt(n). The error of bits per byte is the error of a ratio, by the delta method.
TaskResult task_result(const Task& task, const std::vector<QuestionResult>& results);

// Returns the mean of `centred` over the tasks, which is DCLM's CORE where these are its tasks. Its
// error takes them as independent. Requires at least one task.
Estimate centred_mean(const std::vector<TaskResult>& tasks);

// Returns {"tasks": [...], "centred_mean": ..., "centred_mean_stderr": ...}. A task has the members
// of TaskResult by their names, an Estimate as NAME and NAME_stderr. A number that is not known is
// NaN, which dump() writes as null.
nlohmann::ordered_json tasks_as_json(const std::vector<TaskResult>& tasks);
// Returns a table for people, a line a task, and the mean.
std::string tasks_as_text(const std::vector<TaskResult>& tasks);

}  // namespace lmtrain
