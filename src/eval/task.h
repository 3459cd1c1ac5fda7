// Tasks that measure a model, in the record format of DCLM CORE: a file of JSON lines, all of one
// type.
//
//  - multiple choice: {"query", "choices", "gold"}: which of the choices continues the query?
//  - schema: {"context_options", "continuation", "gold"}: after which context is the continuation
//    the likeliest?
//  - language modelling: {"context", "continuation"}: is the continuation what the model would
//    write?
//
// A folder with a tasks.json holds several tasks (docs/scoring.md). A prompt may begin with
// examples, other records of the file with their answers; the record's "shots" lists them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lmtrain {

enum class TaskType { kMultipleChoice, kSchema, kLanguageModelling };
// Returns the name in tasks.json, which is the name in DCLM CORE: multiple_choice, schema,
// language_modeling.
const char* task_type_name(TaskType type);

struct TaskRecord {
  std::string where;                 // file, as it was given, and line: "DIR/capitals.jsonl:3"
  std::vector<std::string> options;  // the choices, the context options, or the one context
  std::string stem;                  // the query, or the continuation
  int64_t gold = 0;                  // index of the right option
  std::vector<int64_t> shots;        // indices of records
};

struct Task {
  std::string name;
  TaskType type = TaskType::kMultipleChoice;
  int64_t num_shots = 0;        // examples before each question
  std::string delimiter = " ";  // between query or context and what follows
  double chance = 0;            // accuracy by guessing, from 0 to 1
  std::vector<TaskRecord> records;
};

// Reads the tasks of a folder with tasks.json, or of a tasks.json, or the one task of a file of
// JSON lines. Defaults: the type of the first record, no shots, a space as delimiter, and as chance
// the mean of 1 / options, or 0 for language modelling. Throws Error(kIo), and:
//   Error(kUsage)  the path does not exist, or is a folder without tasks.json
//   Error(kData)   a file has an error; the message names file and line
std::vector<Task> read_tasks(const std::filesystem::path& path);

// Reads one file of JSON lines as a task with the defaults, and the name of the file without its
// extension. Throws the same errors.
Task read_task_file(const std::filesystem::path& path);

}  // namespace lmtrain
