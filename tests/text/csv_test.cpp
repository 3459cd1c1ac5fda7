// open_csv of readers.h: what a table as text may hold, and what is wrong with it.
#include <gtest/gtest.h>

#include "text/documents.h"

namespace lmtrain {
namespace {

class Csv : public ::testing::Test {
 protected:
  Read read_csv(std::string_view bytes, const std::string& field = "text") const {
    return read(folder_.write("a.csv", bytes), DataFormat::kCsv, field);
  }
  std::string problem_of(std::string_view bytes, const std::string& field = "text") const {
    return problem(folder_.write("a.csv", bytes), DataFormat::kCsv, field);
  }
  Folder folder_;
};

TEST_F(Csv, QuotesSeparatorsAndNewlines) {
  EXPECT_EQ(read_csv("id,text,x\n1,plain,\n2,\"a, b\",y\n3,\"say \"\"a\"\"\",\"\"\n").texts,
            Texts({"plain", "a, b", "say \"a\""}));
  EXPECT_EQ(read_csv("text,x\n\"two\nlines\r\nthree\",1\n").texts, Texts({"two\nlines\r\nthree"}));
  EXPECT_EQ(read_csv("text\r\n\"\"\r\na \"quote\" inside\r\n").texts,
            Texts({"", "a \"quote\" inside"}));
  EXPECT_EQ(read_csv("text,x\ra,1\rb,2").texts, Texts({"a", "b"})) << "\\r, and no last newline";
  EXPECT_EQ(read_csv("\"text\",\"a,b\"\n,1\n").texts, Texts({""})) << "nothing is an empty text";
}

TEST_F(Csv, MarkBlankLinesAndNothing) {
  EXPECT_EQ(read_csv("\xEF\xBB\xBFtext\na\n").texts, Texts({"a"}));
  const Read blank = read_csv("\n\ntext,x\n\na,1\n\r\nb,2\n\n");
  EXPECT_EQ(blank.texts, Texts({"a", "b"}));
  EXPECT_EQ(blank.skipped.blank_lines, 5);
  EXPECT_EQ(read_csv("").texts, Texts());
  EXPECT_EQ(read_csv("text,x\n").texts, Texts());
}

TEST_F(Csv, TabsAndCompression) {
  EXPECT_EQ(read(folder_.write("a.tsv", "text\tx\na, b\t1\n"), DataFormat::kTsv).texts,
            Texts({"a, b"}));
}

// Rows, fields and line ends lie across the ends of the buffer.
TEST_F(Csv, LargeTables) {
  std::string bytes = "id,text\r\n";
  Texts texts;
  for (int i = 0; i < 3000; ++i) {
    texts.push_back(
        std::string(static_cast<size_t>(i * 7 % 1001), static_cast<char>('a' + i % 26)) +
        "\r\n\"x\",");
    std::string quoted = texts.back();
    quoted.replace(quoted.find("\"x\""), 3, "\"\"x\"\"");
    bytes += std::to_string(i) + ",\"" + quoted + "\"\r\n";
  }
  EXPECT_EQ(read_csv(bytes).texts, texts);
}

TEST_F(Csv, RaggedRowsAreNamedByTheirLine) {
  expect_contains(problem_of("id,text\n1,a\n2,b,c\n"), "a.csv:3: the row has 3 fields");
  expect_contains(problem_of("id,text\n1,\"a\nb\"\n\n2\n"), "a.csv:5: the row has 1 field,");
  expect_contains(problem_of("id,text\n1,\"a\r\nb\"\r\n2\r\n"), "a.csv:4: the row has 1 field,");
}

TEST_F(Csv, QuotesThatDoNotFit) {
  expect_contains(problem_of("id,text\n1,a\n2,\"b\n3,c\n"), "a.csv:3: a quote that begins a field");
  expect_contains(problem_of("id,text\n1,\"a\" b\n"), "a.csv:2: text behind the quote");
}

TEST_F(Csv, ColumnsThatAreMissingOrThereTwice) {
  expect_contains(problem_of("id,texts\n1,a\n"), "did you mean \"texts\"?");
  expect_contains(problem_of("id;body\n1;a\n"), "the first line has: \"id;body\"");
  expect_contains(problem_of("text,text\na,b\n"), "names two columns \"text\"");
  EXPECT_EQ(csv_columns(folder_.write("b.csv", "x,\"te\nxt\"\n1,2\n"), ','),
            Texts({"x", "te\nxt"}));
  EXPECT_EQ(csv_columns(folder_.write("b.csv", "x,\"text\n"), ','), Texts());
  EXPECT_EQ(csv_columns(folder_.write("b.csv", ""), ','), Texts());
}

TEST_F(Csv, AFieldWithoutEndIsRefused) {
  const auto path = folder_.write("a.csv", "id,text\n1,\"" + std::string(2000, 'a') + "\"\n");
  expect_contains(
      error_of(ErrorKind::kData, [&] { read(path, DataFormat::kCsv, "text", 0, 1000); }),
      "a.csv:2: a field of more than");
}

}  // namespace
}  // namespace lmtrain
