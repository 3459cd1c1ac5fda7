#include "corpus/documents.h"

#include <gtest/gtest.h>

#include "corpus/folder.h"

namespace lmtrain {
namespace {

using Texts = std::vector<std::string>;

struct Read {
  Texts texts;
  int64_t blank_lines = 0;
};

Read read(const std::filesystem::path& path, const std::string& format,
          const std::string& field = "text") {
  Read result;
  int64_t expected = 0;
  result.blank_lines = read_documents({path, 0, 0, 1.0}, format, field,
                                      [&](std::string_view text, int64_t position) {
                                        EXPECT_EQ(position, expected++);
                                        result.texts.emplace_back(text);
                                      })
                           .blank_lines;
  return result;
}

TEST(ListSourceFiles, ByteOrderOfPathEachOnce) {
  const Folder folder;
  for (const char* name : {"b.txt", "a/z.txt", "a.txt", "B.txt", "a-b.txt"})
    folder.write(name, name);
  const auto files = list_source_files(
      {{folder.str("b.txt"), 2.0}, {folder.str(), 1.0}, {folder.str("*.txt"), 3.0}});
  Texts names;
  for (const SourceFile& file : files) names.push_back(file.path.lexically_relative(folder / ""));
  EXPECT_EQ(names, Texts({"B.txt", "a-b.txt", "a.txt", "a/z.txt", "b.txt"}));
  EXPECT_EQ(files.back().weight, 2.0) << "the first source that names it";
  EXPECT_EQ(files.back().source, 0);
  EXPECT_EQ(files.front().weight, 1.0);
  EXPECT_EQ(files.front().source, 1);
  EXPECT_EQ(files[3].size, 7U);
  EXPECT_GT(files[3].mtime_ns, 0);
}

TEST(ListSourceFiles, WhatMatchesNothingIsAUsageErrorThatNamesIt) {
  const Folder folder;
  folder.write("empty/.hidden", "x");
  const auto message = [&](const char* name) {
    return error_of(ErrorKind::kUsage, [&] {
      list_source_files({{folder.str("empty/.hidden"), 1.0}, {folder.str(name), 1.0}},
                        "/data/eval");
    });
  };
  expect_contains(message("missing.txt"), "/data/eval/1: ");
  expect_contains(message("missing.txt"), folder.str("missing.txt"));
  expect_contains(message("missing.txt"), "no such file");
  expect_contains(message("*.txt"), "matches no file");
  expect_contains(message("empty"), "holds no files");
}

TEST(ResolveFormat, ByExtension) {
  EXPECT_EQ(resolve_format("a.jsonl", "auto"), "jsonl");
  EXPECT_EQ(resolve_format("a.ndjson", "auto"), "jsonl");
  EXPECT_EQ(resolve_format("a.py", "auto"), "text");
  EXPECT_EQ(resolve_format("a", "auto"), "text");
  EXPECT_EQ(resolve_format("a.jsonl", "text"), "text");
  EXPECT_EQ(resolve_format("a.txt", "lines"), "lines");
  for (const char* path : {"a.gz", "a.jsonl.zst", "a.bz2", "a.parquet", "a.arrow"}) {
    expect_contains(error_of(ErrorKind::kConfig, [&] { resolve_format(path, "auto"); }), path);
  }
  expect_contains(error_of(ErrorKind::kConfig, [] { resolve_format("a", "parquet"); }),
                  "/data/format");
}

TEST(ReadDocuments, TextIsTheFileByteForByte) {
  const Folder folder;
  const std::string odd("\xEF\xBB\xBF line\r\n\0\xFF\n\n", 12);
  EXPECT_EQ(read(folder.write("odd.txt", odd), "auto").texts, Texts({odd}));
  EXPECT_EQ(read(folder.write("empty.txt", ""), "auto").texts, Texts({""}))
      << "an empty file is an empty document";
}

TEST(ReadDocuments, Lines) {
  const Folder folder;
  const Read result =
      read(folder.write("a.txt", std::string("one\r\n\n two \n\r\nth\0ree\nlast", 25)), "lines");
  EXPECT_EQ(result.texts, Texts({"one", " two ", std::string("th\0ree", 6), "last"}));
  EXPECT_EQ(result.blank_lines, 2);
  EXPECT_EQ(read(folder.write("b.txt", ""), "lines").texts, Texts());
  EXPECT_EQ(read(folder.write("c.txt", "x\n"), "lines").texts, Texts({"x"}));
}

TEST(ReadDocuments, LinesLongerThanAnyBuffer) {
  const Folder folder;
  const std::string a(3'000'001, 'a');
  const std::string b((1 << 20) - 1, 'b');
  EXPECT_EQ(read(folder.write("a.txt", a + "\n" + b + "\n\nc"), "lines").texts, Texts({a, b, "c"}));
}

TEST(ReadDocuments, JsonLines) {
  const Folder folder;
  const auto path = folder.write("a.jsonl",
                                 "\xEF\xBB\xBF{\"text\": \"a\\u00e9\\n\\ud83d\\ude00\"}\r\n"
                                 "\n"
                                 "  {\"id\": [1, {}], \"text\": \"\", \"other\": \"o\"}  \n"
                                 "{\"text\": \"\\u0000\\ufeff\"}");
  const Read result = read(path, "auto");
  EXPECT_EQ(result.texts,
            Texts({"a\xC3\xA9\n\xF0\x9F\x98\x80", "", std::string("\0\xEF\xBB\xBF", 4)}));
  EXPECT_EQ(result.blank_lines, 1);
}

TEST(ReadDocuments, BadJsonLinesNameFileAndLine) {
  const Folder folder;
  const auto message = [&](const std::string& line, const std::string& field = "text") {
    const auto path =
        folder.write("bad.jsonl", "{\"text\": \"fine\", \"content\": \"x\"}\n\n" + line + "\n");
    const std::string text = error_of(ErrorKind::kData, [&] { read(path, "auto", field); });
    return text;
  };
  const std::string place = folder.str("bad.jsonl:3: ");
  for (const char* line : {"{\"text\": \"a\"", "nonsense", "{\"text\": \"\xFF\"}",
                           "{\"text\": \"\\ud800\"}", "{} {}"}) {
    expect_contains(message(line), place);
    expect_contains(message(line), "not JSON at column");
  }
  expect_contains(message("{\"texts\": \"a\"}"), "did you mean \"texts\"");
  expect_contains(message("{\"body\": \"a\", \"id\": 1}"), "body, id");
  expect_contains(message("{\"text\": 5}"), place + "field \"text\" is number");
  expect_contains(message("{\"text\": null}"), "is null");
  expect_contains(message("[\"a\"]"), "array instead of an object");
  expect_contains(message("3"), "number instead of an object");
}

}  // namespace
}  // namespace lmtrain
