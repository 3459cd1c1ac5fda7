// Results by these prompts are compared with a reference in tests/e2e/commands/tasks_test.cpp.
#include "eval/task_question.h"

#include <gtest/gtest.h>

#include "base/support.h"
#include "support/source_dir.h"

namespace lmtrain {
namespace {

class Prompts : public ::testing::Test {
 protected:
  ModelText model(int64_t max_length = 1000) const { return {tokenizer_, true, max_length}; }
  // The text of the last `count` tokens of a row.
  std::string end_of(const ScoredRow& row, int64_t count) const {
    return tokenizer_.decode({row.ids.end() - count, row.ids.end()});
  }

  Tokenizer tokenizer_ =
      Tokenizer::load(testing::source_dir() / "tests/reference/tokenizer/tokenizer.model");
  Task choices_{"choices",
                TaskType::kMultipleChoice,
                1,
                ": ",
                0.5,
                {{"f:1", {"red", "green"}, "The sky is", 0, {1}},
                 {"f:2", {"blue", "white", "black"}, " Snow is ", 1, {0}}}};
  Task schema_{"schema", TaskType::kSchema,
               0,        " ",
               0.5,      {{"f:1", {"The keys", "The key of it"}, "are here", 0, {}}}};
  Task language_{
      "language", TaskType::kLanguageModelling,
      1,          " ",
      0,          {{"f:1", {"\n One, two, "}, "three", 0, {1}}, {"f:2", {" a b "}, " c", 0, {0}}}};
};

TEST_F(Prompts, OfMultipleChoiceDifferInTheChoice) {
  EXPECT_EQ(prompts_of(choices_, 0), (std::vector<std::string>{
                                         " Snow is : white\n\nThe sky is: red",
                                         " Snow is : white\n\nThe sky is: green",
                                     }));
  EXPECT_EQ(prompts_of(choices_, 1).at(2), "The sky is: red\n\n Snow is : black");
}

TEST_F(Prompts, OfASchemaDifferInTheContext) {
  EXPECT_EQ(prompts_of(schema_, 0),
            (std::vector<std::string>{"The keys are here", "The key of it are here"}));
}

TEST_F(Prompts, OfLanguageModellingLoseSpaceAroundTheContext) {
  EXPECT_EQ(prompts_of(language_, 0), std::vector<std::string>{"a b  c\n\nOne, two, three"});
  EXPECT_EQ(prompts_of(language_, 1), std::vector<std::string>{"One, two, three\n\na b  c"});
}

TEST_F(Prompts, QuestionBeginsWithBosAndScoresTheAnswer) {
  const TaskQuestion choice = question_of(model(), choices_, 0);
  ASSERT_EQ(choice.rows.size(), 2U);
  for (const ScoredRow& row : choice.rows) EXPECT_EQ(row.ids.front(), tokenizer_.bos_id());
  EXPECT_EQ(end_of(choice.rows[0], choice.gold_tokens), " red");
  EXPECT_EQ(choice.gold_bytes, 3);
  // The space before red and green is a token of both, or part of the first one of each.
  const std::string scored = end_of(choice.rows[1], choice.answers[1]);
  EXPECT_TRUE(scored == " green" || scored == "green") << scored;
  EXPECT_FALSE(choice.is_truncated);

  const TaskQuestion schema = question_of(model(), schema_, 0);
  EXPECT_EQ(schema.answers[0], schema.answers[1]);
  EXPECT_EQ(end_of(schema.rows[0], schema.answers[0]), end_of(schema.rows[1], schema.answers[1]));
  EXPECT_EQ(end_of(schema.rows[0], schema.gold_tokens), " are here");
  EXPECT_EQ(schema.gold_bytes, 8);

  const TaskQuestion language = question_of(model(), language_, 0);
  ASSERT_EQ(language.rows.size(), 1U);
  EXPECT_EQ(end_of(language.rows[0], language.answers[0]), " three");
  EXPECT_EQ(language.rows[0].num_scored, language.gold_tokens);
}

TEST_F(Prompts, AChoiceThatBeginsAnotherHasATokenToScore) {
  Task task = choices_;
  task.num_shots = 0;
  task.records[0].options = {"one", "one more"};
  const TaskQuestion question = question_of(model(), task, 0);
  EXPECT_EQ(question.answers[0], 1);
  EXPECT_GT(question.answers[1], 1);
  EXPECT_GT(question.rows[0].num_scored, 1) << "bits per byte are of the whole answer";
}

TEST_F(Prompts, LongPromptLosesItsBeginning) {
  const TaskQuestion whole = question_of(model(), choices_, 0);
  const auto size = static_cast<int64_t>(whole.rows[0].ids.size());
  const TaskQuestion cut = question_of(model(size - 2), choices_, 0);
  EXPECT_TRUE(cut.is_truncated);
  EXPECT_EQ(cut.rows[0].ids,
            std::vector<int32_t>(whole.rows[0].ids.begin() + 2, whole.rows[0].ids.end()));
  EXPECT_EQ(cut.answers, whole.answers);
  const std::string message =
      testing::error_of(ErrorKind::kData, [&] { question_of(model(2), choices_, 0); });
  EXPECT_EQ(message.rfind("f:1: the answer has ", 0), 0U) << message;
}

TEST_F(Prompts, AskedTaskHasAQuestionARecord) {
  const AskedTask asked = asked_task(model(), choices_);
  EXPECT_EQ(asked.questions.size(), 2U);
  EXPECT_EQ(asked.questions[1].rows.size(), 3U);
  EXPECT_EQ(asked.task.name, "choices");
}

}  // namespace
}  // namespace lmtrain
