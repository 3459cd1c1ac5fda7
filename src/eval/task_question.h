// The prompts of a task, by the rules of nanochat's evaluation of DCLM CORE
// (nanochat/core_eval.py): the examples, each with an empty line after it; query or context;
// delimiter; choice or continuation. The text is encoded as a whole after prefix_id()
// (eval/model_text.h). Scored are
//
//  - of multiple choice, the tokens after the longest common beginning of the prompts of all
//    choices;
//  - of a schema, the longest common end of the prompts of all contexts;
//  - of language modelling, which drops white space around contexts, the tokens after the longest
//    common beginning with the prompt without its continuation.
//
// Each option has at least one scored token, even if nanochat has none (a choice that is the
// beginning of another). A prompt of more than max_length tokens keeps the last ones.
#pragma once

#include <string>
#include <vector>

#include "eval/model_text.h"
#include "eval/scored_row.h"
#include "eval/task.h"

namespace lmtrain {

// Returns the prompts of the record task.records[index], one for each option.
std::vector<std::string> prompts_of(const Task& task, size_t index);

// The question about one record.
struct TaskQuestion {
  // One row for each option. Row i scores answers[i] tokens, the row of the gold option at least
  // gold_tokens.
  std::vector<ScoredRow> rows;
  std::vector<int64_t> answers;  // for each option: the number of last tokens that count
  int64_t gold_tokens = 0;       // tokens of the gold answer alone, for its bits per byte
  int64_t gold_bytes = 0;        // the bytes of its text
  bool is_truncated = false;     // a prompt was cut
};
// Returns the question about task.records[index]. Throws Error(kData) that names file and line if
// the right answer has no token, or max_length would cut away a scored token or the token before
// it. Throws the error of ModelText::prefix_id(), which names no file.
TaskQuestion question_of(const ModelText& model, const Task& task, size_t index);

// A task with its questions, ready for a model.
struct AskedTask {
  Task task;
  std::vector<TaskQuestion> questions;  // one a record
};
// Returns the task with a question for each record. Throws the errors of question_of().
AskedTask asked_task(const ModelText& model, Task task);

}  // namespace lmtrain
