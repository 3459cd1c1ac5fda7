#include <gtest/gtest.h>

#include "base/support.h"
#include "eval/task.h"

namespace lmtrain {
namespace {

class TaskList : public ::testing::Test {
 protected:
  TaskList() {
    testing::replace_file(folder_ / "a.jsonl",
                          "{\"query\":\"q\",\"choices\":[\"x\",\"y\"],\"gold\":0,\"shots\":[1]}\n"
                          "{\"query\":\"r\",\"choices\":[\"x\",\"y\"],\"gold\":1,\"shots\":[0]}\n");
    testing::replace_file(folder_ / "b.jsonl", "{\"context\":\"q\",\"continuation\":\"r\"}\n");
  }
  std::vector<Task> read(const std::string& list) const {
    testing::replace_file(folder_ / "tasks.json", list);
    return read_tasks(folder_.path());
  }
  // One task on a.jsonl with `more`, which is on line 2.
  std::string error_with(const std::string& more) const {
    return testing::error_of(ErrorKind::kData, [&] {
      read("{ \"tasks\": [\n  { \"file\": \"a.jsonl\", " + more + " }\n] }");
    });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(TaskList, SaysHowEachFileIsAsked) {
  const std::vector<Task> tasks = read(R"(// a comment
{ "tasks": [
  { "file": "a.jsonl", "name": "first", "type": "multiple_choice", "shots": 1, "delimiter": "\n",
    "chance": 0.4 },
  { "file": "b.jsonl" },
  { "file": "a.jsonl" }
] })");
  ASSERT_EQ(tasks.size(), 3U);
  EXPECT_EQ(tasks[0].name, "first");
  EXPECT_EQ(tasks[0].num_shots, 1);
  EXPECT_EQ(tasks[0].delimiter, "\n");
  EXPECT_EQ(tasks[0].chance, 0.4);
  EXPECT_EQ(tasks[1].name, "b");
  EXPECT_EQ(tasks[1].type, TaskType::kLanguageModelling);
  EXPECT_EQ(tasks[2].name, "a");
  EXPECT_EQ(tasks[2].num_shots, 0);
  EXPECT_EQ(tasks[2].delimiter, " ");
  EXPECT_EQ(tasks[2].chance, 0.5);
}

TEST_F(TaskList, OneFileIsOneTask) {
  const std::vector<Task> tasks = read_tasks(folder_ / "b.jsonl");
  ASSERT_EQ(tasks.size(), 1U);
  EXPECT_EQ(tasks[0].name, "b");
}

TEST_F(TaskList, MayBeNamedItself) {
  read("{\"tasks\": [{\"file\": \"b.jsonl\", \"name\": \"c\"}]}");
  EXPECT_EQ(read_tasks(folder_ / "tasks.json").at(0).name, "c");
}

TEST_F(TaskList, MistakesAreNamedWithTheirLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("shot": 1)", "did you mean \"shots\""},
      {R"("shots": -1)", "an integer from 0"},
      {R"("shots": 1.5)", "an integer from 0"},
      {R"("type": "choice")", "allowed: multiple_choice, schema, language_modeling"},
      {R"("type": "schema")", "is a record of multiple_choice"},
      {R"("delimiter": 3)", "a string"},
      {R"("chance": 1)", "below 1"},
      {R"("chance": "half")", "below 1"},
      {R"("name": "")", "name is empty"},
      {R"("file": "b.jsonl")", "file"},
  };
  for (const auto& [more, part] : cases) {
    const std::string message = error_with(more);
    EXPECT_NE(message.find("tasks.json:2: "), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  const std::string shots = error_with(R"("shots": 2)");
  EXPECT_NE(shots.find("a.jsonl:1: "), std::string::npos) << shots;
  EXPECT_NE(shots.find("tasks.json:2 asks for 2"), std::string::npos) << shots;
}

TEST_F(TaskList, ListMustNameFilesThatAreThere) {
  const auto error_of_list = [&](const std::string& list) {
    return testing::error_of(ErrorKind::kData, [&] { read(list); });
  };
  for (const char* none : {"{}", "{\"tasks\": []}", "[]", "{\"tasks\": {}}"}) {
    EXPECT_NE(error_of_list(none).find("tasks.json:1: no list \"tasks\""), std::string::npos);
  }
  EXPECT_NE(error_of_list("{\"tasks\": [{\"file\": \"c.jsonl\"}]}").find("c.jsonl"),
            std::string::npos);
  EXPECT_NE(error_of_list("{\"tasks\": [{\"name\": \"c\"}]}").find("no \"file\""),
            std::string::npos);
  EXPECT_NE(error_of_list("{\"tasks\": [3]}").find("not an object"), std::string::npos);
  EXPECT_NE(error_of_list("{\"tasks\": [{\"file\": \"a.jsonl\"},\n{\"file\": \"a.jsonl\"}]}")
                .find("tasks.json:2: a second task has the name \"a\""),
            std::string::npos);
  EXPECT_NE(error_of_list("{").find("tasks.json:1"), std::string::npos);
}

TEST_F(TaskList, FolderWithoutAListIsAMistakeOfTheUser) {
  const std::string message =
      testing::error_of(ErrorKind::kUsage, [&] { read_tasks(folder_.path()); });
  EXPECT_NE(message.find("holds no tasks.json"), std::string::npos);
  testing::error_of(ErrorKind::kUsage, [&] { read_tasks(folder_ / "none"); });
}

}  // namespace
}  // namespace lmtrain
