// tasks.json: which files of a folder are tasks, and how each is asked.
#include <algorithm>

#include "base/error.h"
#include "base/examine.h"
#include "base/read_file.h"
#include "base/text.h"
#include "config/json_reader.h"
#include "eval/task.h"

namespace lmtrain {
namespace {

using Type = JsonNode::Type;

constexpr const char* kTaskList = "tasks.json";

[[noreturn]] void fail_at(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::kData, str(where, ": ", what));
}

void check_keys(const JsonNode& object, const std::vector<std::string>& known) {
  for (const JsonMember& member : object.members) {
    if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
    const std::string nearest = nearest_word(member.key, known);
    fail_at(member.key_where, str("unknown key \"", printable(member.key), '"',
                                  nearest.empty() ? str("; known here: ", join(known, ", "))
                                                  : str("; did you mean \"", nearest, "\"?")));
  }
}

// Returns the text of a member; null if there is no such member.
const std::string* text_of(const JsonNode& object, const char* key) {
  const JsonNode* node = object.find(key);
  if (node == nullptr) return nullptr;
  if (!node->is(Type::kString))
    fail_at(node->where, str(key, " is ", quote_json(*node), "; allowed: a string"));
  return &node->text;
}

// Throws Error(kData) if tasks.json names another type than the records have: it may name the wrong
// file.
void check_type(const Task& task, const JsonNode& object) {
  const std::string* type = text_of(object, "type");
  if (type == nullptr || *type == task_type_name(task.type)) return;
  const std::vector<std::string> names = {task_type_name(TaskType::kMultipleChoice),
                                          task_type_name(TaskType::kSchema),
                                          task_type_name(TaskType::kLanguageModelling)};
  const JsonNode& node = *object.find("type");
  if (std::find(names.begin(), names.end(), *type) == names.end()) {
    fail_at(node.where, str("type is ", quote_json(node), "; allowed: ", join(names, ", ")));
  }
  fail_at(node.where, str("type is ", quote_json(node), ", and ", task.records.front().where,
                          " is a record of ", task_type_name(task.type)));
}

void read_shots(Task& task, const JsonNode& object) {
  const JsonNode* shots = object.find("shots");
  if (shots == nullptr) return;
  if (!shots->integer || *shots->integer < 0)
    fail_at(shots->where, str("shots is ", quote_json(*shots), "; allowed: an integer from 0"));
  task.num_shots = *shots->integer;
  for (const TaskRecord& record : task.records) {
    if (static_cast<int64_t>(record.shots.size()) >= task.num_shots) continue;
    fail_at(record.where,
            str("\"shots\" names ", counted(static_cast<int64_t>(record.shots.size()), "record"),
                ", and ", shots->where, " asks for ", task.num_shots,
                "; list the indices of the examples to show"));
  }
}

void read_chance(Task& task, const JsonNode& object) {
  const JsonNode* chance = object.find("chance");
  if (chance == nullptr) return;
  if (!chance->is(Type::kNumber) || !(chance->number >= 0 && chance->number < 1)) {
    fail_at(chance->where,
            str("chance is ", quote_json(*chance), "; allowed: a number from 0, below 1"));
  }
  task.chance = chance->number;
}

Task read_entry(const JsonNode& entry, const std::filesystem::path& folder) {
  if (!entry.is(Type::kObject))
    fail_at(entry.where, str(quote_json(entry), " is not an object; allowed: { \"file\": ... }"));
  check_keys(entry, {"file", "name", "type", "shots", "delimiter", "chance"});
  const std::string* file = text_of(entry, "file");
  if (file == nullptr || file->empty())
    fail_at(entry.where, "the task has no \"file\"; name its file of JSON lines");
  const std::filesystem::path path = folder / *file;
  if (!is_there(path)) {
    fail_at(entry.find("file")->where, str("there is no ", path.string(),
                                           "; paths are relative to the folder of ", kTaskList));
  }
  Task task = read_task_file(path);
  if (const std::string* name = text_of(entry, "name")) {
    if (name->empty()) fail_at(entry.find("name")->where, "name is empty; give the task a name");
    task.name = *name;
  }
  check_type(task, entry);
  read_shots(task, entry);
  if (const std::string* delimiter = text_of(entry, "delimiter")) task.delimiter = *delimiter;
  read_chance(task, entry);
  return task;
}

std::vector<Task> read_task_list(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kTaskList;
  const JsonReadResult read = read_json_file_text(read_file(path), path.string());
  if (!read.problems.empty()) throw Error(ErrorKind::kData, join(read.problems, "\n"));
  const JsonNode* entries = read.root->find("tasks");
  if (entries == nullptr || !entries->is(Type::kArray) || entries->items.empty()) {
    fail_at(read.root->where,
            "no list \"tasks\"; give { \"tasks\": [ { \"file\": \"FILE.jsonl\" } ] }");
  }
  check_keys(*read.root, {"tasks"});
  std::vector<Task> tasks;
  for (const JsonNode& entry : entries->items) {
    tasks.push_back(read_entry(entry, folder));
    for (size_t i = 0; i + 1 < tasks.size(); ++i) {
      if (tasks[i].name != tasks.back().name) continue;
      fail_at(entry.where, str("a second task has the name \"", printable(tasks[i].name),
                               "\"; give one of them another \"name\""));
    }
  }
  return tasks;
}

}  // namespace

std::vector<Task> read_tasks(const std::filesystem::path& path) {
  if (path.filename() == kTaskList && is_file(path)) return read_task_list(path.parent_path());
  if (!is_folder(path)) return {read_task_file(path)};
  if (!is_there(path / kTaskList)) {
    throw Error(ErrorKind::kUsage, str(path.string(), " holds no ", kTaskList,
                                       "; give a folder with one, or a file of JSON lines"));
  }
  return read_task_list(path);
}

}  // namespace lmtrain
