// open_json_array of readers.h.
#include <gtest/gtest.h>

#include "text/documents.h"

namespace lmtrain {
namespace {

class JsonArray : public ::testing::Test {
 protected:
  Read read_array(std::string_view bytes, const std::string& field = "text") const {
    return read(folder_.write("a.json", bytes), DataFormat::kJson, field);
  }
  std::string problem_of(std::string_view bytes) const {
    return problem(folder_.write("a.json", bytes), DataFormat::kJson);
  }
  Folder folder_;
};

TEST_F(JsonArray, ObjectsAndStrings) {
  EXPECT_EQ(
      read_array("[{\"text\": \"a\", \"x\": [1, {\"y\": \"]}\"}]}, {\"text\":\"\\u00e9\\\"\"}]")
          .texts,
      Texts({"a", "\xC3\xA9\""}));
  EXPECT_EQ(read_array("\xEF\xBB\xBF\n[\n  \"a\" ,\n\"\\\\\", \"b\\n,]\"\n]\n").texts,
            Texts({"a", "\\", "b\n,]"}));
  EXPECT_EQ(read_array("[]").texts, Texts());
  EXPECT_EQ(read_array("[{\"a\": {\"b\": \"x\"}}]", "a.b").texts, Texts({"x"}));
  const Read nulls = read_array("[null, \"a\", {\"text\": null}]");
  EXPECT_EQ(nulls.texts, Texts({"a"}));
  EXPECT_EQ(nulls.skipped.nulls, 2);
}

TEST_F(JsonArray, LargeArrays) {
  Texts texts;
  std::string bytes = "[";
  for (int i = 0; i < 3000; ++i) {
    texts.push_back(std::string(static_cast<size_t>(i * 7 % 1001), 'a') + "\\\"\n");
    bytes += i == 0 ? "\"" : ",\n\"";
    bytes += std::string(static_cast<size_t>(i * 7 % 1001), 'a') + "\\\\\\\"\\n\"";
  }
  EXPECT_EQ(read_array(bytes + "]").texts, texts);
}

TEST_F(JsonArray, WhatIsWrongIsNamedByItsLine) {
  expect_contains(problem_of("[\"a\",\n\"b\""), "a.json:2: the array is not closed at the end");
  expect_contains(problem_of("[\"a\",\n\"b"), "a.json:2: a string is not closed");
  expect_contains(problem_of("[\"a\"\n\"b\"]"), "a.json:2: a comma or ]");
  expect_contains(problem_of("[\"a\",\n]"), "a.json:2: an element of the array is expected");
  expect_contains(problem_of("[,\"a\"]"), "an element of the array is expected");
  expect_contains(problem_of("[\"a\"]\n\n x"), "a.json:3: more text after the end of the array");
  expect_contains(problem_of("{\"text\": \"a\"}"), "does not begin with a JSON array");
  expect_contains(problem_of(""), "the file is empty");
  expect_contains(problem_of("[\"a\",\n 5]"), "a.json:2: element 1 of the array: it holds number");
  expect_contains(problem_of("[{\"text\": \"a\"},\n{\"texts\": \"a\"}]"),
                  "a.json:2: element 1 of the array: no field \"text\"; did you mean \"texts\"");
  expect_contains(problem_of("[{\"text\": oops}]"),
                  "element 0 of the array: not JSON at column 10");
  expect_contains(problem_of("[\"\\ud800\"]"), "half of a surrogate pair");
  expect_contains(problem_of("[\"\xFF\"]"), "not UTF-8");
  expect_contains(problem_of("[tru, \"a\"]"), "element 0 of the array: ");
}

TEST_F(JsonArray, AnElementWithoutEndIsRefused) {
  const auto path = folder_.write("a.json", "[\"" + std::string(2000, 'a') + "\"]");
  expect_contains(
      error_of(ErrorKind::kData, [&] { read(path, DataFormat::kJson, "text", 0, 1000); }),
      "a.json:1: an element of more than");
}

}  // namespace
}  // namespace lmtrain
