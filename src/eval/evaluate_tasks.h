// Asks a model the questions of tasks. The rows of all tasks go through the model together, sorted
// by length.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "config/config.h"
#include "eval/score_rows.h"
#include "eval/task_question.h"
#include "eval/task_result.h"
#include "model/llama.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// Returns the number of rows of all questions, up to which `keep_going` counts.
size_t count_rows(const std::vector<AskedTask>& tasks);

// Returns a result for each task; nothing if `keep_going` returns false. Arguments and errors are
// as for score_rows().
std::optional<std::vector<TaskResult>> evaluate_tasks(Llama& model,
                                                      const std::vector<AskedTask>& tasks,
                                                      int64_t batch_tokens,
                                                      const KeepScoring& keep_going);

// A TaskProbe asks the model of a run the questions of `eval.tasks` at each evaluation, as
// `lmtrain eval --tasks` asks the model of a checkpoint. Nothing in the run depends on the answers.
class TaskProbe {
 public:
  // Reads the tasks of eval.tasks, which must be set, and makes their prompts. `config` is
  // resolved. Throws (eval/task.h, eval/task_question.h):
  //   Error(kUsage)  a path does not exist
  //   Error(kData)   a file has an error; the message names file and line
  TaskProbe(const Config& config, const Tokenizer& tokenizer);

  // Returns a result for each task, and shows progress on a terminal; an empty list if the model's
  // output is not finite. A batch has up to `batch_tokens` positions, or one row. Calls
  // `keep_going` before each batch; returns nothing if that returns false.
  std::optional<std::vector<TaskResult>> ask(Llama& model, int64_t batch_tokens,
                                             const std::function<bool()>& keep_going) const;

 private:
  std::vector<AskedTask> tasks_;
};

}  // namespace lmtrain
