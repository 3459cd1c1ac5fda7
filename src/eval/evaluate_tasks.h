// Asks a model the questions of tasks. The rows of all tasks go through it together, sorted by
// length.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "eval/prompts.h"
#include "eval/score_rows.h"
#include "eval/task_result.h"
#include "model/llama.h"

namespace lmtrain {

// Returns how many rows the questions have, which is what `keep_going` counts to.
size_t count_rows(const std::vector<AskedTask>& tasks);

// Returns a result for each task; nothing when `keep_going` says so. Throws the errors of
// score_rows().
std::optional<std::vector<TaskResult>> evaluate_tasks(Llama& model,
                                                      const std::vector<AskedTask>& tasks,
                                                      int64_t batch_tokens,
                                                      const KeepScoring& keep_going);

}  // namespace lmtrain
