#include "text/readers.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "prepare/folder.h"
#include "text/documents.h"

namespace lmtrain {
namespace {

TEST(LinesReader, EndsAndBlankLines) {
  const Folder folder;
  const Read result =
      read(folder.write("a.txt", std::string("one\r\n\n two \n\r\nth\0ree\nlast", 25)),
           DataFormat::kLines);
  EXPECT_EQ(result.texts, Texts({"one", " two ", std::string("th\0ree", 6), "last"}));
  EXPECT_EQ(result.positions, std::vector<int64_t>({0, 1, 2, 3}));
  EXPECT_EQ(result.skipped.blank_lines, 2);
  EXPECT_EQ(read(folder.write("b.txt", ""), DataFormat::kLines).texts, Texts());
  EXPECT_EQ(read(folder.write("c.txt", "x\n"), DataFormat::kLines).texts, Texts({"x"}));
}

TEST(LinesReader, LinesLongerThanAnyBuffer) {
  const Folder folder;
  const std::string a(3'000'001, 'a');
  const std::string b((1 << 20) - 1, 'b');
  EXPECT_EQ(read(folder.write("a.txt", a + "\n" + b + "\n\nc"), DataFormat::kLines).texts,
            Texts({a, b, "c"}));
}

TEST(TextReader, IsTheFileByteForByte) {
  const Folder folder;
  const std::string odd("\xEF\xBB\xBF line\r\n\0\xFF\n\n", 12);
  EXPECT_EQ(read(folder.write("odd.txt", odd)).texts, Texts({odd}));
  EXPECT_EQ(read(folder.write("empty.txt", "")).texts, Texts({""}))
      << "an empty file is an empty document";
  const std::string big(5'000'000, 'b');
  EXPECT_EQ(read(folder.write("big", big)).texts, Texts({big}));
}

TEST(JsonLinesReader, Strings) {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl",
                   "\xEF\xBB\xBF{\"text\": \"a\\u00e9\\n\\ud83d\\ude00\"}\r\n"
                   "\n"
                   "  {\"id\": [1, {\"text\": 5}], \"text\": \"\", \"other\": \"o\"}  \n"
                   "{\"text\": \"\\u0000\\ufeff\"}\n"
                   " \t \r\n"
                   "{\"text\": null}\n"
                   "{\"t\\u0065xt\": \"escaped key\"}");
  const Read result = read(path);
  EXPECT_EQ(result.texts, Texts({"a\xC3\xA9\n\xF0\x9F\x98\x80", "",
                                 std::string("\0\xEF\xBB\xBF", 4), "escaped key"}));
  EXPECT_EQ(result.positions, std::vector<int64_t>({0, 1, 2, 3}));
  EXPECT_EQ(result.skipped.blank_lines, 2);
  EXPECT_EQ(result.skipped.nulls, 1);
}

TEST(JsonLinesReader, NumbersThatFitNoTypeAreStillJson) {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl",
                   "{\"id\": 123456789012345678901234567890, \"text\": \"a\\u00e9\"}\n"
                   "{\"x\": [0.1e-999, -99999999999999999999], \"text\": \"b\"}\n");
  EXPECT_EQ(read(path).texts, Texts({"a\xC3\xA9", "b"}));
}

TEST(JsonLinesReader, FieldsInsideObjects) {
  const Folder folder;
  const auto path = folder.write("a.jsonl",
                                 "{\"a\": {\"b\": \"inside\", \"c\": {\"b\": \"no\"}}}\n"
                                 "{\"a\": {\"b\": \"no\"}, \"a.b\": \"the whole name\"}\n"
                                 "{\"a\": {\"b\": null}}\n");
  const Read result = read(path, DataFormat::kAuto, "a.b");
  EXPECT_EQ(result.texts, Texts({"inside", "the whole name"}));
  EXPECT_EQ(result.skipped.nulls, 1);
  expect_contains(problem(folder.write("b.jsonl", "{\"a\": [{\"b\": \"in a list\"}]}"),
                          DataFormat::kAuto, "a.b"),
                  "no field \"a.b\"");
}

TEST(JsonLinesReader, LongAndDeepLines) {
  const Folder folder;
  const std::string text(3'000'000, 'x');
  const std::string deep(200'000, '[');
  const auto path =
      folder.write("a.jsonl", str("{\"text\": \"", text, "\"}\n{\"text\": \"b\", \"deep\": ", deep,
                                  std::string(deep.size(), ']'), "}\n"));
  EXPECT_EQ(read(path).texts, Texts({text, "b"}));
  expect_contains(problem(folder.write("b.jsonl", "{\"text\": " + deep)), "b.jsonl:1: not JSON");
}

TEST(JsonLinesReader, BadLinesNameFileAndLine) {
  const Folder folder;
  const auto message = [&](const std::string& line, const std::string& field = "text") {
    return problem(folder.write("bad.jsonl", "{\"text\": \"fine\", \"content\": \"x\"}\n\n" + line +
                                                 "\n{\"text\": \"fine\"}\n"),
                   DataFormat::kAuto, field);
  };
  const std::string location = folder.str("bad.jsonl:3: ");
  for (const char* line :
       {"{\"text\": \"a\"", "nonsense", "{\"text\": \"\xFF\"}", "{\"text\": \"\\ud800\"}", "{} {}",
        "{\"text\": \"a\", \"id\": tru}", "{\"text\": \"a\", \"id\": 1.2.3}", "{\"text\": \"a\"} x",
        "{\"text\": \"a\",}", "\xEF\xBB\xBF{\"text\": \"a\"}", "{\"text\": \"tab\there\"}"}) {
    expect_contains(message(line), location);
    expect_contains(message(line), "not JSON at column");
  }
  expect_contains(message("{\"texts\": \"a\"}"), "did you mean \"texts\"");
  expect_contains(message("{\"body\": \"a\", \"id\": 1}"), "\"body\", \"id\"");
  expect_contains(message("{\"text\": 5}"), location + "field \"text\" is number");
  expect_contains(message("{\"text\": [\"a\"]}"), "field \"text\" is array");
  expect_contains(message("{\"text\": \"a\", \"text\": \"a\"}"), "2 times");
  expect_contains(message("[\"a\"]"), "array instead of an object");
  expect_contains(message("3"), "number instead of an object");
}

TEST(JsonLinesReader, CutAnywhereIsAnErrorUnlessBetweenLines) {
  const Folder folder;
  const std::string line = "{\"id\": [1, -2.5e3, true], \"text\": \"a\\n\\u00e9 \xC3\xA9\"}";
  for (size_t size = 1; size < line.size(); ++size)
    expect_contains(problem(folder.write("a.jsonl", line + "\n" + line.substr(0, size))), ":2: ");
  for (size_t offset = 0; offset < line.size(); ++offset) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = line;
      damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << bit));
      folder.write("a.jsonl", damaged);
      try {
        read(folder / "a.jsonl");
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData);
      }
    }
  }
}

TEST(Readers, ALimitIsThatOfTheTextAlone) {
  const Folder folder;
  for (const char* end : {"\n", "\r\n", ""}) {
    const auto path = folder.write("a.txt", str("12345", end));
    EXPECT_EQ(read(path, DataFormat::kLines, "text", 0, 5).texts, Texts({"12345"}));
    const std::string message =
        error_of(ErrorKind::kData, [&] { read(path, DataFormat::kLines, "text", 0, 4); });
    expect_contains(message, "a.txt:1: a line of more than 4 B (data.max_document)");
  }
  const auto path = folder.write("a.txt", "12345");
  EXPECT_EQ(read(path, DataFormat::kText, "text", 0, 5).texts, Texts({"12345"}));
  expect_contains(error_of(ErrorKind::kData, [&] { read(path, DataFormat::kText, "text", 0, 4); }),
                  "a document of more than 4 B (data.max_document); where its lines are documents");
}

TEST(Readers, FilesThatCannotBeOpened) {
  const Folder folder;
  for (const char* name : {"a.txt", "a.jsonl", "a.txt.gz", "a.parquet", "a.arrow"}) {
    expect_contains(error_of(ErrorKind::kIo, [&] { read(folder / name); }), name);
  }
}

TEST(JsonLinesReader, NumbersOfPythonAreTakenInFieldsThatAreNotRead) {
  const Folder folder;
  for (const char* number : {"NaN", "Infinity", "-Infinity"}) {
    const Read result =
        read(folder.write("a.jsonl", str("{\"score\": ", number, ", \"text\": \"a\"}\n",
                                         "{\"text\": \"b\", \"scores\": [1, ", number, "]}\n")));
    EXPECT_EQ(result.texts, Texts({"a", "b"}));
    const std::string message =
        problem(folder.write("a.jsonl", str("{\"text\": \"a\"}\n{\"text\": ", number, "}\n")));
    expect_contains(message, "a.jsonl:2: field \"text\" is number instead of a string");
    expect_contains(message, "data.on_bad_line \"skip\"");
  }
  for (const char* word : {"Nan", "nan", "Inf", "-Inf", "-NaN"})
    expect_contains(
        problem(folder.write("a.jsonl", str("{\"text\": \"b\", \"score\": ", word, "}\n"))),
        "a.jsonl:1: not JSON at column ");
}

TEST(JsonLinesReader, ABadLineHasItsMessageWithoutTheAdviceToSkipIt) {
  const Folder folder;
  const auto path = folder.write("a.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n");
  try {
    read(path);
    FAIL() << "the line was taken";
  } catch (const BadLine& line) {
    EXPECT_TRUE(line.problem().ends_with(
        "a.jsonl:2: no field \"text\"; did you mean \"txt\" (data.text_field)?"))
        << line.problem();
    EXPECT_EQ(
        line.what(),
        line.problem() + "; data.on_bad_line \"skip\" leaves such lines out, at most one of 1000");
  }
}

TEST(JsonLinesReader, BadLinesMayBeSkippedAndAreCounted) {
  const Folder folder;
  const auto path = folder.write("a\n.jsonl",
                                 "{\"text\": \"a\"}\n"
                                 "{\"text\": \"n\", \"score\": NaN}\n"
                                 "{\"text\": \"\\ud800\"}\n"
                                 "{\"text\": \"cut\n"
                                 "\n"
                                 "{\"text\": null}\n"
                                 "{\"text\": \"\xFF\"}\n"
                                 "{\"other\": 1}\n{\"text\": 1}\n[\"text\"]\n"
                                 "{\"text\": \"b\"}\n");
  const Read result =
      read(path, DataFormat::kJsonl, "text", 0, uint64_t{1} << 30, /*skips_bad_lines=*/true);
  EXPECT_EQ(result.texts, Texts({"a", "n", "b"}));
  EXPECT_EQ(result.positions, std::vector<int64_t>({0, 1, 2}));
  EXPECT_EQ(result.skipped.bad_lines, 6);
  EXPECT_EQ(result.skipped.json_lines, 10);
  EXPECT_EQ(result.skipped.nulls, 1);
  ASSERT_EQ(result.skipped.first_bad_lines.size(), NoDocuments::kMostNamed);
  expect_contains(result.skipped.first_bad_lines[0], "a\\n.jsonl:3: not JSON at column ");
  for (const std::string& line : result.skipped.first_bad_lines)
    EXPECT_EQ(line.find(';'), std::string::npos) << "advice is given once: " << line;
}

// As in tables, where a struct that is null has no fields that are there.
TEST(JsonLinesReader, AFieldOfAnObjectThatIsNullIsNull) {
  const Folder folder;
  const auto path = folder.write("a.jsonl", "{\"a\": null}\n{\"a\": {\"b\": \"c\"}}\n");
  const Read result = read(path, DataFormat::kAuto, "a.b");
  EXPECT_EQ(result.texts, Texts({"c"}));
  EXPECT_EQ(result.skipped.nulls, 1);
}

TEST(Readers, WhatLiesInPlaceOfAFileIsNamed) {
  const Folder folder;
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  for (const char* name : {"a.txt", "a.jsonl", "a.parquet", "a.arrow", "a.txt.gz", "a.jsonl.zst"})
    expect_contains(problem(folder.write(name, pointer)), "git lfs pull");
  expect_contains(problem(folder.write("a.lines", pointer), DataFormat::kLines), "git lfs pull");
  for (const char* name : {"a.jsonl", "a.parquet", "a.arrow", "a.jsonl.gz"}) {
    expect_contains(problem(folder.write(name, "<!DOCTYPE html>\n<html></html>\n")), "a web page");
    expect_contains(problem(folder.write(name, "Entry not found")), "of a server");
  }
  const std::string wide("\xFF\xFE{\0\"\0t\0e\0x\0t\0\"\0:\0\"\0a\0\"\0}\0\n\0", 28);
  for (const std::string& text : {wide, wide.substr(2)}) {
    const std::string message = problem(folder.write("a.jsonl", text));
    expect_contains(message, "is UTF-16");
    // Without a byte order mark the advice names the order.
    const char* name = text.size() == wide.size() ? "UTF-16" : "UTF-16LE";
    expect_contains(message, std::string("iconv -f ") + name + " -t UTF-8");
  }
  expect_contains(problem(folder.write("a.txt", wide)), "is UTF-16");
  expect_contains(problem(folder.write("a.txt", wide), DataFormat::kLines), "is UTF-16");
}

TEST(Readers, NamesOfFilesAreShownAsLsShowsThem) {
  const Folder folder;
  for (const char* name : {"\x1B[31m\n.jsonl", "\x1B[31m\n.parquet", "\x1B[31m\n.arrow",
                           "\x1B[31m\n.jsonl.gz", "\x1B[31m\n.jsonl.zst"}) {
    const std::string message = problem(folder.write(name, "{\"other\": 1}\n"));
    expect_contains(message, "\\033[31m\\n.");
    EXPECT_EQ(message.find('\x1B'), std::string::npos);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

}  // namespace

}  // namespace lmtrain
