// A TaskProbe asks the model of a run the questions of `eval.tasks` at each evaluation, as
// `lmtrain eval --tasks` does of a checkpoint. Nothing of the run depends on the answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "config/config.h"
#include "tokenizer/tokenizer.h"
#include "model/llama.h"
#include "eval/prompts.h"
#include "eval/task_result.h"

namespace lmtrain {

class TaskProbe {
 public:
  // Reads the tasks of eval.tasks, which is set, and makes their prompts. `config` is resolved.
  // Throws Error(kUsage) for a path that does not exist, and Error(kData) that names file and line
  // for all that is wrong in a file (eval/task.h, eval/prompts.h).
  TaskProbe(const Config& config, const Tokenizer& tokenizer);

  // Returns a result for each task, none where the model's output is not finite, and shows its
  // progress on a terminal. A batch has at most `batch_tokens` positions; one row at least. Returns
  // nothing when `keep_going`, which is called before each batch, returns false.
  std::optional<std::vector<TaskResult>> ask(Llama& model, int64_t batch_tokens,
                                             const std::function<bool()>& keep_going) const;

 private:
  std::vector<AskedTask> tasks_;
};

}  // namespace lmtrain
