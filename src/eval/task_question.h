// The prompts of a task, by the rules of nanochat's evaluation of DCLM CORE
// (nanochat/core_eval.py): the examples, each followed by an empty line, then query or context,
// delimiter, and what follows. The text is encoded as a whole after BOS (EOS where the tokenizer
// has no BOS). Scored are
//
//  - of multiple choice, the tokens beyond the longest common beginning of the prompts of all
//    choices;
//  - of a schema, the longest common end of the prompts of all contexts;
//  - of language modelling, where white space around contexts is dropped, the tokens beyond those
//    that the prompt shares with the same prompt without the continuation.
//
// Each option has at least one scored token, also where nanochat has none (a choice that is the
// beginning of another). A prompt of more than max_length tokens keeps the last ones.
#pragma once

#include <string>
#include <vector>

#include "eval/model_text.h"
#include "eval/scored_row.h"
#include "eval/task.h"

namespace lmtrain {

// Returns the prompts of a record, one for each option. `records[index]` is the record.
std::vector<std::string> prompts_of(const Task& task, size_t index);

// The question about one record.
struct TaskQuestion {
  // One row for each option. It scores the number of tokens in `answers`, but the row of the gold
  // option at least gold_tokens.
  std::vector<ScoredRow> rows;
  std::vector<int64_t> answers;  // of each option: how many of the last tokens nanochat scores
  int64_t gold_tokens = 0;       // tokens of the gold answer alone, for its bits per byte
  int64_t gold_bytes = 0;        // the bytes of its text
  bool is_truncated = false;     // a prompt was cut
};
// Throws Error(kData) that names file and line where the right answer has no token, or where a
// scored token, or the one before it, would be cut away. Throws the errors of
// ModelText::prefix_id(), which name neither file nor line.
TaskQuestion question_of(const ModelText& model, const Task& task, size_t index);

// A task with its questions, ready for a model.
struct AskedTask {
  Task task;
  std::vector<TaskQuestion> questions;  // one a record
};
// Throws the errors of question_of().
AskedTask asked_task(const ModelText& model, Task task);

}  // namespace lmtrain
