#include "corpus/sources/content.h"

#include <gtest/gtest.h>

#include "corpus/folder.h"

namespace lmtrain {
namespace {

using Kind = Content::Kind;

Kind kind_of(std::string_view head, bool is_whole = true, bool is_named_json = false) {
  return content_of(head, is_whole, is_named_json, "text").kind;
}

TEST(ContentOf, JsonLines) {
  EXPECT_EQ(kind_of("{\"text\": \"a\"}"), Kind::kJsonLines);
  EXPECT_EQ(kind_of("\xEF\xBB\xBF\n{\"text\": \"a\"}\r\n\n{\"id\": 2}"), Kind::kJsonLines);
  EXPECT_EQ(kind_of("{\"text\": null}\n"), Kind::kJsonLines);
  EXPECT_EQ(kind_of("{\"text\": \"a\"}\n{\"te"), Kind::kJsonLines) << "its reader finds the line";
  EXPECT_EQ(kind_of("{\"text\": \"a\"}\n{\"te", false), Kind::kJsonLines);
}

TEST(ContentOf, AFirstLineLongerThanTheHead) {
  const std::string line = "{\"id\": 1, \"meta\": [true, null, -1.5e3], \"text\": \"a \\u00e9 b\"}";
  for (size_t size = 2; size < line.size(); ++size)
    EXPECT_EQ(kind_of(line.substr(0, size), false), Kind::kJsonLines) << size;
  EXPECT_EQ(kind_of("{not json, and more of it", false), Kind::kText);
}

TEST(ContentOf, OtherJson) {
  EXPECT_EQ(kind_of("{\"id\": 1}\n{\"id\": 2}\n"), Kind::kJson);
  EXPECT_EQ(kind_of("{\"text\": 5}\n"), Kind::kJson);
  EXPECT_EQ(kind_of("{\n  \"text\": \"a\"\n}\n"), Kind::kJson);
  EXPECT_EQ(kind_of("{\n  \"text\": \"a", false), Kind::kJson);
  EXPECT_EQ(kind_of("[{\"text\": \"a\"},\n {\"text\": \"b\"}]"), Kind::kJson);
  EXPECT_EQ(kind_of("[{\"text\": \"a\"},\n {\"text\": \"b", false), Kind::kJson);
  EXPECT_EQ(kind_of("{\n} {\n}", true, true), Kind::kJson);
  EXPECT_EQ(kind_of("prose", true, true), Kind::kJson);
}

TEST(ContentOf, Text) {
  EXPECT_EQ(kind_of(""), Kind::kText);
  EXPECT_EQ(kind_of(" \n", true, true), Kind::kText);
  EXPECT_EQ(kind_of("{"), Kind::kText);
  EXPECT_EQ(kind_of("{ int x; }"), Kind::kText);
  EXPECT_EQ(kind_of("[1] note\n[2] note\n"), Kind::kText);
  EXPECT_EQ(kind_of("{\n} {\n}"), Kind::kText);
  EXPECT_EQ(kind_of("caf\xE9 in Latin-1"), Kind::kText);
  EXPECT_EQ(kind_of("\x1B[31mred\x1B[0m\f\b"), Kind::kText);
}

TEST(LookAt, LongLinesAndCompressedFiles) {
  const Folder folder;
  const std::string line = "{\"a\": \"" + std::string(100'000, 'x') + "\", \"text\": \"b\"}\n";
  EXPECT_EQ(look_at(folder.write("a.json", line + line), "text").kind, Kind::kJsonLines);
  const std::string other = "{\"a\": \"" + std::string(100'000, 'x') + "\"}\n";
  EXPECT_EQ(look_at(folder.write("b.json", other + other), "text").kind, Kind::kJson);
  EXPECT_EQ(look_at(folder.write("c.txt", std::string(100'000, 'x')), "text").kind, Kind::kText);
}

}  // namespace
}  // namespace lmtrain
