#include "eval/task_probe.h"

#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "eval/evaluate_tasks.h"

namespace lmtrain {

TaskProbe::TaskProbe(const Config& config, const Tokenizer& tokenizer) {
  const ModelText text{tokenizer, config.tokenizer.add_bos.value_or(true),
                       config.sequence.max_length};
  for (Task& task : read_tasks(*config.eval.tasks))
    tasks_.push_back(asked_task(text, std::move(task)));
}

std::optional<std::vector<TaskResult>> TaskProbe::ask(
    Llama& model, int64_t batch_tokens, const std::function<bool()>& keep_going) const {
  PercentLine progress("scoring", static_cast<int64_t>(count_rows(tasks_)));
  try {
    return evaluate_tasks(model, tasks_, batch_tokens, [&](size_t done) {
      progress.show(static_cast<int64_t>(done));
      return keep_going();
    });
  } catch (const Error& error) {
    // Those who train such weights decide what becomes of them.
    if (error.kind() != ErrorKind::kNumeric) throw;
    return std::vector<TaskResult>();
  }
}

}  // namespace lmtrain
