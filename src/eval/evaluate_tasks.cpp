#include "eval/evaluate_tasks.h"

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

}  // namespace lmtrain
