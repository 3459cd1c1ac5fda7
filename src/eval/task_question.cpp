#include "eval/task_question.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "eval/white_space.h"

namespace lmtrain {
namespace {

using Ids = std::vector<int32_t>;

// Returns the text before the delimiter, for one of the options.
std::string_view head_of(const Task& task, const TaskRecord& record, size_t option) {
  switch (task.type) {
    case TaskType::kMultipleChoice:
      return record.stem;
    case TaskType::kSchema:
      return record.options[option];
    case TaskType::kLanguageModelling:
      break;
  }
  return without_space_around(record.options[option]);
}

// Returns the text after the delimiter, for one of the options.
std::string_view tail_of(const Task& task, const TaskRecord& record, size_t option) {
  return task.type == TaskType::kMultipleChoice ? record.options[option] : record.stem;
}

std::string examples_of(const Task& task, const TaskRecord& record) {
  std::string text;
  for (int64_t i = 0; i < task.num_shots; ++i) {
    const TaskRecord& example =
        task.records[static_cast<size_t>(record.shots[static_cast<size_t>(i)])];
    const auto gold = static_cast<size_t>(example.gold);
    text += str(head_of(task, example, gold), task.delimiter, tail_of(task, example, gold), "\n\n");
  }
  return text;
}

// The prompt as far as it is known before the answer. White space at its end belongs to the tokens
// of the answer.
std::string prompt_without_answer(const Task& task, const TaskRecord& record, size_t option) {
  const std::string prompt =
      str(examples_of(task, record), head_of(task, record, option), task.delimiter);
  return std::string(task.type == TaskType::kLanguageModelling ? without_space_around(prompt)
                                                               : without_space_behind(prompt));
}

size_t common_prefix(const Ids& a, const Ids& b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

size_t common_suffix(const Ids& a, const Ids& b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.rbegin(), a.rbegin() + static_cast<ptrdiff_t>(most), b.rbegin()).first -
      a.rbegin());
}

// Returns how many tokens of each prompt are the answer.
std::vector<size_t> answer_sizes(const Task& task, const std::vector<Ids>& prompts,
                                 size_t gold_size) {
  if (task.type == TaskType::kLanguageModelling) return {gold_size};
  size_t shortest = prompts.front().size();
  size_t prefix = shortest, suffix = shortest;
  for (const Ids& prompt : prompts) {
    shortest = std::min(shortest, prompt.size());
    prefix = std::min(prefix, common_prefix(prompts.front(), prompt));
    suffix = std::min(suffix, common_suffix(prompts.front(), prompt));
  }
  std::vector<size_t> sizes;
  sizes.reserve(prompts.size());
  for (const Ids& prompt : prompts) {
    sizes.push_back(task.type == TaskType::kSchema
                        ? std::max<size_t>(1, std::min(suffix, shortest - 1))
                        : prompt.size() - std::min(prefix, shortest - 1));
  }
  return sizes;
}

}  // namespace

std::vector<std::string> prompts_of(const Task& task, size_t index) {
  const TaskRecord& record = task.records[index];
  const std::string examples = examples_of(task, record);
  std::vector<std::string> prompts;
  for (size_t i = 0; i < record.options.size(); ++i) {
    prompts.push_back(
        str(examples, head_of(task, record, i), task.delimiter, tail_of(task, record, i)));
  }
  return prompts;
}

TaskQuestion question_of(const ModelText& model, const Task& task, size_t index) {
  const TaskRecord& record = task.records[index];
  const auto encode = [&](std::string_view text) {
    Ids ids = model.tokenizer.encode(text);
    ids.insert(ids.begin(), model.prefix_id());
    return ids;
  };
  std::vector<Ids> prompts;
  for (const std::string& prompt : prompts_of(task, index)) prompts.push_back(encode(prompt));
  const auto gold = static_cast<size_t>(record.gold);
  const size_t before =
      common_prefix(encode(prompt_without_answer(task, record, gold)), prompts[gold]);
  const size_t gold_size = prompts[gold].size() - before;
  if (gold_size == 0) {
    throw Error(ErrorKind::kData, str(record.where,
                                      ": the right answer has no token of its own; give one that "
                                      "the tokenizer does not drop"));
  }

  TaskQuestion question;
  question.gold_tokens = static_cast<int64_t>(gold_size);
  question.gold_bytes = static_cast<int64_t>(tail_of(task, record, gold).size());
  const std::vector<size_t> sizes = answer_sizes(task, prompts, gold_size);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const size_t scored = i == gold ? std::max(sizes[i], gold_size) : sizes[i];
    const auto longest = static_cast<size_t>(model.max_length);
    Ids& ids = prompts[i];
    if (scored >= longest || scored >= ids.size()) {
      throw Error(ErrorKind::kData,
                  str(record.where, ": the answer has ",
                      counted(static_cast<int64_t>(scored), "token"), ", and the model takes ",
                      model.max_length, " with what comes before; shorten or remove the record"));
    }
    if (ids.size() > longest) {
      question.is_truncated = true;
      ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(longest));
    }
    question.answers.push_back(static_cast<int64_t>(sizes[i]));
    question.rows.push_back({std::move(ids), static_cast<int64_t>(scored)});
  }
  return question;
}

AskedTask asked_task(const ModelText& model, Task task) {
  AskedTask asked;
  for (size_t i = 0; i < task.records.size(); ++i)
    asked.questions.push_back(question_of(model, task, i));
  asked.task = std::move(task);
  return asked;
}

}  // namespace lmtrain
