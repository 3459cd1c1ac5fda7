#include "eval/task_result.h"

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/utf8.h"
#include "config/json_reader.h"

namespace lmtrain {
namespace {

using nlohmann::ordered_json;

// The index of the largest value, the first of several.
template <class Value>
int64_t index_of_largest(size_t count, const Value& value) {
  size_t largest = 0;
  for (size_t i = 1; i < count; ++i) {
    if (value(i) > value(largest)) largest = i;
  }
  return static_cast<int64_t>(largest);
}

// The ratio of two sums over n records, and its error; with y = 1 for all it is a mean.
Estimate ratio(const std::vector<QuestionResult>& results,
               const std::function<double(const QuestionResult&)>& x,
               const std::function<double(const QuestionResult&)>& y) {
  const auto n = static_cast<double>(results.size());
  double sum_x = 0, sum_y = 0;
  for (const QuestionResult& result : results) {
    sum_x += x(result);
    sum_y += y(result);
  }
  const double value = sum_x / sum_y;
  double squares = 0;
  for (const QuestionResult& result : results) {
    const double residual = x(result) - value * y(result);
    squares += residual * residual;
  }
  return {value, results.size() > 1 ? std::sqrt(n / (n - 1) * squares) / sum_y : NAN};
}

Estimate mean(const std::vector<QuestionResult>& results, bool QuestionResult::*is) {
  return ratio(
      results, [is](const QuestionResult& result) { return result.*is ? 1.0 : 0.0; },
      [](const QuestionResult&) { return 1.0; });
}

void add(ordered_json& json, const std::string& name, const Estimate& estimate) {
  json[name] = estimate.value;
  json[name + "_stderr"] = estimate.standard_error;
}

std::string as_text(const Estimate& estimate) {
  std::string value = printed("%.3f", estimate.value);
  if (std::isnan(estimate.standard_error)) return value;
  return str(value, " ± ", printed("%.3f", estimate.standard_error));
}

size_t num_characters(const std::string& text) {
  size_t count = 0;
  for (const char c : text) count += is_utf8_continuation(c) ? 0 : 1;
  return count;
}

}  // namespace

QuestionResult question_result(const Task& task, size_t index, const TaskQuestion& question,
                               std::span<const RowScore> scores) {
  const auto gold = static_cast<size_t>(task.records[index].gold);
  QuestionResult result;
  result.nats = -log_probability(scores[gold], question.gold_tokens);
  result.bytes = question.gold_bytes;
  result.is_truncated = question.is_truncated;
  if (task.type == TaskType::kLanguageModelling) {
    result.is_right = result.is_right_norm = scores[0].is_greedy;
    return result;
  }
  const auto total = [&](size_t i) { return log_probability(scores[i], question.answers[i]); };
  const auto per_token = [&](size_t i) {
    return total(i) / static_cast<double>(question.answers[i]);
  };
  result.is_right = index_of_largest(scores.size(), total) == task.records[index].gold;
  result.is_right_norm = index_of_largest(scores.size(), per_token) == task.records[index].gold;
  return result;
}

TaskResult task_result(const Task& task, const std::vector<QuestionResult>& results) {
  TaskResult result;
  result.name = task.name;
  result.type = task.type;
  result.shots = task.num_shots;
  result.records = static_cast<int64_t>(results.size());
  result.chance = task.chance;
  result.accuracy = mean(results, &QuestionResult::is_right);
  result.accuracy_norm = mean(results, &QuestionResult::is_right_norm);
  const double room = 1 - task.chance;
  result.centred = {(result.accuracy_norm.value - task.chance) / room,
                    result.accuracy_norm.standard_error / room};
  result.bits_per_byte = ratio(
      results, [](const QuestionResult& one) { return one.nats / std::log(2.0); },
      [](const QuestionResult& one) { return static_cast<double>(one.bytes); });
  for (const QuestionResult& one : results) result.truncated += one.is_truncated ? 1 : 0;
  return result;
}

Estimate centred_mean(const std::vector<TaskResult>& tasks) {
  const auto count = static_cast<double>(tasks.size());
  double sum = 0, squares = 0;
  for (const TaskResult& task : tasks) {
    sum += task.centred.value;
    squares += task.centred.standard_error * task.centred.standard_error;
  }
  return {sum / count, std::sqrt(squares) / count};
}

ordered_json tasks_as_json(const std::vector<TaskResult>& tasks) {
  ordered_json list = ordered_json::array();
  for (const TaskResult& task : tasks) {
    ordered_json json = {{"name", task.name},           {"type", task_type_name(task.type)},
                         {"shots", task.shots},         {"records", task.records},
                         {"truncated", task.truncated}, {"chance", task.chance}};
    add(json, "accuracy", task.accuracy);
    add(json, "accuracy_norm", task.accuracy_norm);
    add(json, "centred", task.centred);
    add(json, "bits_per_byte", task.bits_per_byte);
    list.push_back(std::move(json));
  }
  ordered_json all = {{"tasks", std::move(list)}};
  add(all, "centred_mean", centred_mean(tasks));
  return all;
}

std::string tasks_as_text(const std::vector<TaskResult>& tasks) {
  std::vector<std::vector<std::string>> rows = {
      {"task", "records", "shots", "accuracy", "per token", "centred", "bits per byte"}};
  for (const TaskResult& task : tasks) {
    rows.push_back({printable(task.name), str(task.records), str(task.shots),
                    as_text(task.accuracy), as_text(task.accuracy_norm), as_text(task.centred),
                    as_text(task.bits_per_byte)});
  }
  rows.push_back({"mean", "", "", "", "", as_text(centred_mean(tasks)), ""});
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], num_characters(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blank(widths[i] - num_characters(row[i]), ' ');
      line += i == 0 ? row[i] + blank : "  " + blank + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lmtrain
