// The output of `lmtrain eval --tasks`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "eval/task_result.h"

namespace lmtrain {

// Returns {"tasks": [...], "centred_mean": ..., "centred_mean_stderr": ...}. A task has the members
// of TaskResult by their names, an Estimate as NAME and NAME_stderr. A number that is not known is
// NaN, which dump() writes as null.
nlohmann::ordered_json tasks_as_json(const std::vector<TaskResult>& tasks);
// Returns a table for people, a line a task, and the mean.
std::string tasks_as_text(const std::vector<TaskResult>& tasks);

}  // namespace lmtrain
