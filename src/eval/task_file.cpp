// One file of records, and what is true of a task that nothing else is said of.

#include "base/error.h"
#include "base/text.h"
#include "eval/json_record.h"
#include "eval/task.h"

namespace lmtrain {
namespace {

// The fields of a record, by the type of its task.
struct TaskFields {
  TaskType type;
  const char* options;
  const char* stem;
};
constexpr TaskFields kTaskFields[] = {
    {TaskType::kMultipleChoice, "choices", "query"},
    {TaskType::kSchema, "context_options", "continuation"},
    {TaskType::kLanguageModelling, "context", "continuation"},
};

const TaskFields& fields_of(const JsonRecord& record) {
  for (const TaskFields& fields : kTaskFields) {
    if (record.has(fields.options)) return fields;
  }
  record.fail(
      "no record of a task: it has \"query\", \"choices\" and \"gold\", or \"context_options\", "
      "\"continuation\" and \"gold\", or \"context\" and \"continuation\"");
}

TaskRecord read_record(const JsonRecord& record, const TaskFields& fields) {
  TaskRecord result;
  result.where = record.where();
  result.stem = record.text(fields.stem);
  if (fields.type == TaskType::kLanguageModelling) {
    result.options = {record.text(fields.options)};
  } else {
    result.options = record.texts(fields.options);
    const auto count = static_cast<int64_t>(result.options.size());
    if (count < 2) record.fail(str('"', fields.options, "\" needs at least two entries"));
    result.gold = record.integer("gold");
    if (result.gold < 0 || result.gold >= count) {
      record.fail(str("\"gold\" is ", result.gold, ", and \"", fields.options,
                      "\" has the indices 0 to ", count - 1));
    }
  }
  // An answer without bytes has no bits per byte.
  const bool answers_are_options = fields.type == TaskType::kMultipleChoice;
  if (!answers_are_options && result.stem.empty()) record.fail("\"continuation\" is empty");
  for (const std::string& option : result.options) {
    if (answers_are_options && option.empty()) record.fail("one of \"choices\" is empty");
  }
  if (record.has("shots")) result.shots = record.integers("shots");
  return result;
}

double chance_of(const Task& task) {
  if (task.type == TaskType::kLanguageModelling) return 0;
  double sum = 0;
  for (const TaskRecord& record : task.records)
    sum += 1.0 / static_cast<double>(record.options.size());
  return sum / static_cast<double>(task.records.size());
}

void check_shots(const std::vector<TaskRecord>& records) {
  for (size_t i = 0; i < records.size(); ++i) {
    for (const int64_t shot : records[i].shots) {
      const auto at = static_cast<size_t>(shot);
      if (at < records.size() && at != i) continue;
      throw Error(ErrorKind::kData,
                  str(records[i].where, ": \"shots\" names record ", shot,
                      at == i ? ", which is this one: its answer would be given away"
                              : str("; the file has the records 0 to ", records.size() - 1)));
    }
  }
}

}  // namespace

const char* task_type_name(TaskType type) {
  switch (type) {
    case TaskType::kMultipleChoice:
      return "multiple_choice";
    case TaskType::kSchema:
      return "schema";
    case TaskType::kLanguageModelling:
      break;
  }
  return "language_modeling";
}

Task read_task_file(const std::filesystem::path& path) {
  Task task;
  task.name = path.stem().string();
  for_each_record(path, [&](const JsonRecord& record) {
    const TaskFields& fields = fields_of(record);
    if (task.records.empty()) task.type = fields.type;
    if (fields.type != task.type) {
      record.fail(str("a record of the type ", task_type_name(fields.type), " among those of ",
                      task_type_name(task.type), "; a file holds one task"));
    }
    task.records.push_back(read_record(record, fields));
  });
  if (task.records.empty()) {
    throw Error(ErrorKind::kData, str(path.string(), " holds no record; give it one line or more"));
  }
  check_shots(task.records);
  task.chance = chance_of(task);
  return task;
}

}  // namespace lmtrain
