// Tasks by which a model is judged, in the record format of DCLM CORE: a file of JSON lines, all of
// one type.
//
//  - multiple choice: {"query", "choices", "gold"}: which of the choices continues the query?
//  - schema: {"context_options", "continuation", "gold"}: after which context is the continuation
//    the likeliest?
//  - language modelling: {"context", "continuation"}: is the continuation what the model would
//    write?
//
// Several tasks lie in a folder with a tasks.json (docs/scoring.md). Before a question may stand
// examples, other records of its file with their answers; the record's "shots" says which.
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
  std::vector<std::string> options;  // the choices, or the context options; one context
  std::string stem;                  // the query, or the continuation
  int64_t gold = 0;                  // index of the right option
  std::vector<int64_t> shots;        // indices of records
};

struct Task {
  std::string name;
  TaskType type = TaskType::kMultipleChoice;
  int64_t num_shots = 0;        // examples before each question
  std::string delimiter = " ";  // between query or context and what follows
  double chance = 0;            // accuracy of one who guesses
  std::vector<TaskRecord> records;
};

// Reads the tasks of a folder with tasks.json, or of a tasks.json itself, or the one task of a file
// of JSON lines. What no tasks.json says is this: the type of the first record, no shots, a space
// as delimiter, and as chance the mean of 1 / options, or 0 for language modelling. Throws
// Error(kUsage) for a path that does not exist or a folder without tasks.json, Error(kIo) where the
// system refuses, and Error(kData) that names file and line for all that is wrong in a file.
std::vector<Task> read_tasks(const std::filesystem::path& path);

// Reads one file of JSON lines, with the same errors, as a task without a tasks.json. The task has
// the name of the file, without its extension.
Task read_task_file(const std::filesystem::path& path);

}  // namespace lmtrain
