#include "eval/evaluate_tasks.h"

#include <utility>

#include "base/error.h"
#include "base/progress.h"

namespace lmtrain {

size_t count_rows(const std::vector<AskedTask>& tasks) {
  size_t count = 0;
  for (const AskedTask& task : tasks) {
    for (const TaskQuestion& question : task.questions) count += question.rows.size();
  }
  return count;
}

std::optional<std::vector<TaskResult>> evaluate_tasks(Llama& model,
                                                      const std::vector<AskedTask>& tasks,
                                                      int64_t batch_tokens,
                                                      const KeepScoring& keep_going) {
  std::vector<ScoredRow> rows;
  rows.reserve(count_rows(tasks));
  for (const AskedTask& task : tasks) {
    for (const TaskQuestion& question : task.questions)
      rows.insert(rows.end(), question.rows.begin(), question.rows.end());
  }
  const auto scores = score_rows(model, rows, batch_tokens, keep_going);
  if (!scores) return std::nullopt;
  std::span<const RowScore> rest(*scores);
  std::vector<TaskResult> results;
  for (const AskedTask& asked : tasks) {
    std::vector<QuestionResult> answers;
    for (size_t i = 0; i < asked.questions.size(); ++i) {
      const TaskQuestion& question = asked.questions[i];
      const size_t count = question.rows.size();
      answers.push_back(question_result(asked.task, i, question, rest.first(count)));
      rest = rest.subspan(count);
    }
    results.push_back(task_result(asked.task, answers));
  }
  return results;
}

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
    // The trainer, not an evaluation, decides what becomes of such weights.
    if (error.kind() != ErrorKind::kNumeric) throw;
    return std::vector<TaskResult>();
  }
}

}  // namespace lmtrain
