#include "eval/json_record.h"

#include <gtest/gtest.h>

#include "base/support.h"

namespace lmtrain {
namespace {

using testing::TemporaryFolder;

template <class Work>
std::string failure(const Work& work) {
  return testing::error_of(ErrorKind::kData, work);
}

void expect_failure(const std::string& line, const std::string& part) {
  const std::string message = failure([&] { JsonRecord(line, "file:7"); });
  EXPECT_EQ(message.rfind("file:7: ", 0), 0U) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(JsonRecord, GivesItsFields) {
  const JsonRecord record(
      R"({"a": "text", "list": ["x", "é"], "n": -3, "indices": [0, 7], "empty": []})", "file:1");
  EXPECT_EQ(record.text("a"), "text");
  EXPECT_EQ(record.texts("list"), (std::vector<std::string>{"x", "é"}));
  EXPECT_EQ(record.integer("n"), -3);
  EXPECT_EQ(record.integers("indices"), (std::vector<int64_t>{0, 7}));
  EXPECT_TRUE(record.integers("empty").empty());
  EXPECT_TRUE(record.has("a"));
  EXPECT_FALSE(record.has("b"));
}

TEST(JsonRecord, NamesWhatIsWrongAndWhere) {
  expect_failure("", "blank");
  expect_failure(" \t\r", "blank");
  expect_failure("{", "not JSON at byte");
  expect_failure("[1]", "array, not an object");
  expect_failure("{\"a\": 1, \"a\": 2}", "twice");
  expect_failure("{\"a\": \"\xff\"}", "not JSON");
  expect_failure("\xEF\xBB\xBF{}", "byte order mark");

  const JsonRecord record(R"({"a": 1.5, "b": ["x", 2], "c": [-1], "d": 18446744073709551615})",
                          "file:7");
  const auto expect_field = [](const std::string& message, const std::string& part) {
    EXPECT_EQ(message.rfind("file:7: ", 0), 0U) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_field(failure([&] { record.text("z"); }), "\"z\" is missing");
  expect_field(failure([&] { record.text("a"); }), "number, not a string");
  expect_field(failure([&] { record.texts("b"); }), "not a list of strings");
  expect_field(failure([&] { record.integer("a"); }), "not an integer");
  expect_field(failure([&] { record.integer("d"); }), "not an integer");
  expect_field(failure([&] { record.integers("c"); }), "not a list of integers from 0");
}

TEST(JsonRecord, FileIsReadLineByLine) {
  const TemporaryFolder folder;
  const auto lines_of = [&](const std::string& text) {
    testing::replace_file(folder / "records.jsonl", text);
    std::vector<std::string> places;
    for_each_record(folder / "records.jsonl",
                    [&](const JsonRecord& record) { places.push_back(record.where()); });
    return places;
  };
  const std::string path = (folder / "records.jsonl").string();
  EXPECT_TRUE(lines_of("").empty());
  const std::vector<std::string> two = {path + ":1", path + ":2"};
  EXPECT_EQ(lines_of("{}\n{}\n"), two);
  EXPECT_EQ(lines_of("{}\r\n{}"), two);
  EXPECT_NE(failure([&] { lines_of("{}\n\n{}\n"); }).find(path + ":2: "), std::string::npos);
}

TEST(JsonRecord, PathThatIsNoFileIsAMistakeOfTheUser) {
  const TemporaryFolder folder;
  for (const auto& path : {folder / "none", folder.path()}) {
    const std::string message =
        testing::error_of(ErrorKind::kUsage, [&] { require_record_file(path); });
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lmtrain
