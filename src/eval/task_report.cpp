#include "eval/task_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/utf8.h"
#include "config/json_reader.h"

namespace lmtrain {
namespace {

using nlohmann::ordered_json;

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
