#include <gtest/gtest.h>

#include "base/support.h"
#include "eval/task.h"

namespace lmtrain {
namespace {

using testing::TemporaryFolder;

const char* const kChoice = R"({"query":"q","choices":["a","b","c"],"gold":1})";
const char* const kSchema = R"({"context_options":["a",""],"continuation":"c","gold":0})";
const char* const kLanguage = R"({"context":"","continuation":"c"})";

Task task_of(const std::string& lines) {
  const TemporaryFolder folder;
  testing::replace_file(folder / "some.jsonl", lines);
  return read_task_file(folder / "some.jsonl");
}

std::string error_of_task(const std::string& lines) {
  return testing::error_of(ErrorKind::kData, [&] { task_of(lines); });
}

TEST(TaskFile, TypeIsThatOfItsRecords) {
  const Task choices = task_of(str(kChoice, "\n", R"({"query":"r","choices":["a","b"],"gold":0})"));
  EXPECT_EQ(choices.name, "some");
  EXPECT_EQ(choices.type, TaskType::kMultipleChoice);
  ASSERT_EQ(choices.records.size(), 2U);
  EXPECT_EQ(choices.records[0].stem, "q");
  EXPECT_EQ(choices.records[0].options, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(choices.records[0].gold, 1);
  EXPECT_DOUBLE_EQ(choices.chance, (1.0 / 3 + 1.0 / 2) / 2);
  EXPECT_EQ(choices.num_shots, 0);
  EXPECT_EQ(choices.delimiter, " ");

  const Task schema = task_of(kSchema);
  EXPECT_EQ(schema.type, TaskType::kSchema);
  EXPECT_EQ(schema.records[0].stem, "c");
  EXPECT_EQ(schema.records[0].options, (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(schema.chance, 0.5);

  const Task language = task_of(kLanguage);
  EXPECT_EQ(language.type, TaskType::kLanguageModelling);
  EXPECT_EQ(language.records[0].options, std::vector<std::string>{""});
  EXPECT_EQ(language.chance, 0);
}

TEST(TaskFile, DamagedRecordIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"query":"q","choices":["a","b"]})", "\"gold\" is missing"},
      {R"({"query":"q","choices":["a","b"],"gold":2})", "indices 0 to 1"},
      {R"({"query":"q","choices":["a","b"],"gold":-1})", "indices 0 to 1"},
      {R"({"query":"q","choices":["a","b"],"gold":"1"})", "not an integer"},
      {R"({"query":"q","choices":["a"],"gold":0})", "at least two"},
      {R"({"query":"q","choices":["a",""],"gold":0})", "is empty"},
      {R"({"query":7,"choices":["a","b"],"gold":0})", "not a string"},
      {R"({"choices":["a","b"],"gold":0})", "\"query\" is missing"},
      {R"({"query":"q","choices":["a","b"],"gold":0,"shots":[2]})", "the records 0 to 1"},
      {R"({"query":"q","choices":["a","b"],"gold":0,"shots":[1]})", "which is this one"},
      {R"({"query":"q","choices":["a","b"],"gold":0,"shots":1})", "list of integers"},
      {R"({"question":"q"})", "no record of a task"},
      {kLanguage, "a file holds one task"},
      {"", "blank"},
  };
  for (const auto& [line, part] : cases) {
    const std::string message = error_of_task(str(kChoice, "\n", line, "\n"));
    EXPECT_NE(message.find("some.jsonl:2: "), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_NE(error_of_task(R"({"context":"c","continuation":""})").find("is empty"),
            std::string::npos);
  EXPECT_NE(error_of_task("").find("holds no record"), std::string::npos);
}

}  // namespace
}  // namespace lmtrain
