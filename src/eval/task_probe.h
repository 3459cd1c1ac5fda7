// A TaskProbe asks the model of a run the questions of `eval.tasks` at each evaluation, as
// `lmtrain eval --tasks` asks the model of a checkpoint. Nothing in the run depends on the answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "config/config.h"
#include "eval/prompts.h"
#include "eval/task_result.h"
#include "model/llama.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

class TaskProbe {
 public:
  // Reads the tasks of eval.tasks, which must be set, and makes their prompts. `config` is
  // resolved. Throws (eval/task.h, eval/prompts.h):
  //   Error(kUsage)  a path does not exist
  //   Error(kData)   a file has an error; the message names file and line
  TaskProbe(const Config& config, const Tokenizer& tokenizer);

  // Returns a result for each task, and shows progress on a terminal. The list is empty when the
  // model's output is not finite. A batch has one row, or more up to `batch_tokens` positions.
  // `keep_going` is called before each batch; once it returns false, ask() returns nothing.
  std::optional<std::vector<TaskResult>> ask(Llama& model, int64_t batch_tokens,
                                             const std::function<bool()>& keep_going) const;

 private:
  std::vector<AskedTask> tasks_;
};

}  // namespace lmtrain
