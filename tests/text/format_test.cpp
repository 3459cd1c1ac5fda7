#include "text/format.h"

#include <gtest/gtest.h>

#include "prepare/folder.h"
#include "text/arrow_files.h"
#include "text/sources.h"

namespace lmtrain {
namespace {

using Formats = std::map<std::string, std::string>;

TEST(FormatByName, ByExtension) {
  EXPECT_EQ(format_by_name("a.jsonl", DataFormat::kAuto), "jsonl");
  EXPECT_EQ(format_by_name("a.ndjson", DataFormat::kAuto), "jsonl");
  EXPECT_EQ(format_by_name("a.py", DataFormat::kAuto), "");
  EXPECT_EQ(format_by_name("a", DataFormat::kAuto), "");
  EXPECT_EQ(format_by_name("a.parquet", DataFormat::kAuto), "parquet");
  EXPECT_EQ(format_by_name("data-00000-of-00002.arrow", DataFormat::kAuto), "arrow");
  EXPECT_EQ(format_by_name("a.jsonl.gz", DataFormat::kAuto), "jsonl");
  EXPECT_EQ(format_by_name("a.jsonl.zst", DataFormat::kAuto), "jsonl");
  EXPECT_EQ(format_by_name("a.ndjson.bz2", DataFormat::kAuto), "jsonl");
  EXPECT_EQ(format_by_name("a.jsonl.xz", DataFormat::kAuto), "jsonl");
  EXPECT_EQ(format_by_name("a.txt.zstd", DataFormat::kAuto), "");
  EXPECT_EQ(format_by_name("a.gz", DataFormat::kAuto), "");
  EXPECT_EQ(format_by_name("a.jsonl", DataFormat::kText), "text");
  EXPECT_EQ(format_by_name("a.txt", DataFormat::kLines), "lines");
  EXPECT_EQ(format_by_name("a.gz", DataFormat::kJsonl), "jsonl");
  EXPECT_EQ(format_by_name("a", DataFormat::kParquet), "parquet");
}

TEST(FormatByName, WhatIsNotReadIsRefusedWithAdvice) {
  const auto message = [](const char* path, DataFormat format) {
    return error_of(ErrorKind::kConfig, [&] { format_by_name(path, format); });
  };
  for (const char* path : {"a.lzma", "a.jsonl.lz4", "a.zip"}) {
    expect_contains(message(path, DataFormat::kAuto), path);
    expect_contains(message(path, DataFormat::kText), ".zst");
  }
  expect_contains(message("a.parquet.gz", DataFormat::kAuto), "unpack it");
  expect_contains(message("a.gz", DataFormat::kArrow), "unpack it");
  expect_contains(message("a.bin", DataFormat::kTokens), "tokens");
}

class DecideFormats : public ::testing::Test {
 protected:
  // By name below the folder.
  Formats decide(const std::string& path = "", DataFormat format = DataFormat::kAuto,
                 const std::string& field = "text") {
    std::vector<SourceFile> files = list_source_files({{folder_.str(path), 1.0}});
    decide_formats(files, format, field, "/data/train");
    Formats formats;
    for (const SourceFile& file : files)
      formats[file.path.lexically_relative(folder_.path()).string()] = file.format;
    return formats;
  }
  std::string refusal(const std::string& path = "") {
    return error_of(ErrorKind::kConfig, [&] { decide(path); });
  }

  Folder folder_;
};

TEST_F(DecideFormats, ByContentWhereTheNameDoesNotTell) {
  const std::string json = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
  const auto table = testing::table_of({"a", "b"});
  folder_.write("c4-train.00000-of-01024.json.gz", testing::compressed(json, Compression::kGzip));
  folder_.write("lines.json", json);
  folder_.write("lines", json);
  folder_.write("one.json", R"({"text": "a document"})");
  folder_.write("rows", testing::parquet_bytes(*table));
  folder_.write("stream.dat", testing::arrow_stream_bytes(*table));
  folder_.write("feather", testing::arrow_file_bytes(*table));
  folder_.write("code.py", "{'a': 1}\n[2]\n");
  folder_.write("prose.txt", "[1] A footnote.\n");
  folder_.write("empty.json", "");
  EXPECT_EQ(decide(), (Formats{{"c4-train.00000-of-01024.json.gz", "jsonl"},
                               {"lines.json", "jsonl"},
                               {"lines", "jsonl"},
                               {"one.json", "jsonl"},
                               {"rows", "parquet"},
                               {"stream.dat", "arrow"},
                               {"feather", "arrow"},
                               {"code.py", "text"},
                               {"prose.txt", "text"},
                               {"empty.json", "text"}}));
}

TEST_F(DecideFormats, ArraysAndTablesWithTheField) {
  folder_.write("array.json", "[{\"text\": \"a\"}, {\"text\": \"b\"}]");
  folder_.write("strings.json", "\n [ \"a\", \"b\" ]");
  folder_.write("torn.json", "[{\"text\": \"a\"}, {\"te");
  folder_.write("table.csv", "text,id\na,1\n");
  folder_.write("table.tsv.gz", testing::compressed("id\ttext\n1\ta\n", Compression::kGzip));
  EXPECT_EQ(decide(), (Formats{{"array.json", "json"},
                               {"strings.json", "json"},
                               {"torn.json", "json"},
                               {"table.csv", "csv"},
                               {"table.tsv.gz", "tsv"}}));
  EXPECT_EQ(decide("table.csv", DataFormat::kLines), (Formats{{"table.csv", "lines"}}));
  EXPECT_EQ(decide("array.json", DataFormat::kText), (Formats{{"array.json", "text"}}));
  // Among source code they are fixtures.
  folder_.write("main.py", std::string(10000, 'x'));
  EXPECT_EQ(decide(), (Formats{{"main.py", "text"},
                               {"array.json", "text"},
                               {"strings.json", "text"},
                               {"torn.json", "text"},
                               {"table.csv", "text"},
                               {"table.tsv.gz", "text"}}));
  folder_.write("rows.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_EQ(decide()["table.csv"], "csv");
}

TEST_F(DecideFormats, DataInTheFormOfTextIsRefusedByName) {
  folder_.write("array.json", "[{\"body\": \"a\"}, {\"body\": \"b\"}]");
  folder_.write("pretty.json", "{\n  \"text\": \"a\"\n}\n");
  folder_.write("table.csv", "body,id\na,1\n");
  folder_.write("table.tsv.gz", testing::compressed("body\tid\na\t1\n", Compression::kGzip));
  folder_.write("torn.json", "{\"text\": oops}\n");
  expect_contains(refusal("array.json"), "array.json (a JSON array");
  expect_contains(refusal("array.json"), "/data/train/0: 1 file of 1");
  expect_contains(refusal("array.json"), "one object a line");
  expect_contains(refusal("pretty.json"), "over several lines");
  expect_contains(refusal("array.json"), "the first object has: \"body\"");
  expect_contains(refusal("table.csv"),
                  "without a column \"text\" (text_field); its first line has: \"body\", \"id\"");
  expect_contains(refusal("table.tsv.gz"), "table.tsv.gz");
  expect_contains(refusal("torn.json"), "neither JSON lines");
  const std::string all = refusal();
  expect_contains(all, "5 files of 5");
  for (const char* name : {"array.json", "pretty.json", "table.csv", "table.tsv.gz", "torn.json"})
    expect_contains(all, name);
  folder_.write("x/array.json", "[1, 2]");
  expect_contains(refusal(), "and 1 more");
  EXPECT_EQ(decide("table.csv", DataFormat::kAuto, "body"), (Formats{{"table.csv", "csv"}}));
}

TEST_F(DecideFormats, JsonLinesWithoutTheFieldNameTheirOwn) {
  folder_.write("a.json", "{\"texts\": \"a\", \"id\": 1}\n{\"texts\": \"b\", \"id\": 2}\n");
  expect_contains(refusal(), "did you mean \"texts\"?");
  EXPECT_EQ(decide("", DataFormat::kAuto, "texts"), (Formats{{"a.json", "jsonl"}}));
  folder_.write("a.json", "{\"doc\": {\"body\": \"a\"}}\n");
  EXPECT_EQ(decide("", DataFormat::kAuto, "doc.body"), (Formats{{"a.json", "jsonl"}}));
}

TEST_F(DecideFormats, AFewFilesOfDataAmongSourceCodeAreText) {
  folder_.write("main.py", std::string(1000, 'x'));
  folder_.write("package.json", "{\n  \"name\": \"x\"\n}\n");
  folder_.write("fixture.csv", "a,b\n1,2\n");
  const Formats text = {{"main.py", "text"}, {"package.json", "text"}, {"fixture.csv", "text"}};
  EXPECT_EQ(decide(), text);
  folder_.write("rows.jsonl", "{\"text\": \"a\"}\n");
  expect_contains(refusal(), "2 files of 4");  // a data set, whose parts these may be
  std::filesystem::remove(folder_.path() / "rows.jsonl");
  folder_.write("fixture.csv", std::string(200, ','));
  expect_contains(refusal(), "fixture.csv");
}

TEST_F(DecideFormats, WhatIsNoTextIsRefusedByName) {
  const auto what_of = [&](std::string_view bytes) {
    folder_.write("file.txt", bytes);
    return refusal("file.txt");
  };
  expect_contains(what_of(std::string("PK\x03\x04 and more")), "zip");
  expect_contains(what_of("%PDF-1.7 and more"), "PDF");
  expect_contains(what_of("\x7F"
                          "ELF and more"),
                  "ELF");
  expect_contains(what_of("\x93NUMPY and more"), "numpy");
  expect_contains(what_of("\x89PNG\r\n and more"), "PNG");
  expect_contains(what_of(std::string("\x80\x04\x95 and more")), "pickle");
  expect_contains(what_of(std::string("\x40\0\0\0\0\0\0\0{\"a\":{}}", 16)), "safetensors");
  expect_contains(what_of(std::string("\xFF\xFEt\0e\0x\0t\0", 10)), "UTF-16");
  expect_contains(what_of(testing::compressed("text", Compression::kGzip)), ".gz");
  expect_contains(what_of(std::string(257, 'a') + "ustar" + '\0'), "tar");
  expect_contains(what_of(std::string("\x01\x02\0\x03", 4)), "binary");
  folder_.write("main.py", std::string(100000, 'x'));
  expect_contains(refusal(), "1 file of 2");  // however much text lies beside it
  EXPECT_EQ(decide("file.txt", DataFormat::kText), (Formats{{"file.txt", "text"}}));
  // A stray NUL is text.
  folder_.write("file.txt", std::string(500, 'a') + std::string(1, '\0'));
  EXPECT_EQ(decide("file.txt"), (Formats{{"file.txt", "text"}}));
}

TEST_F(DecideFormats, TextInUtf16IsNamedWithTheCommandThatConvertsIt) {
  folder_.write("a.txt", std::string("t\0e\0x\0t\0 \0o\0f\0 \0", 16));
  folder_.write("b.bin", std::string("\0t\0e\0x\0t\0 \0o\0f\0 ", 16));
  const std::string message = refusal("a.txt");
  expect_contains(message, "a.txt (UTF-16LE text: convert it with iconv -f UTF-16LE -t UTF-8");
  EXPECT_EQ(message.find("data.format text"), std::string::npos) << message;
  EXPECT_EQ(message.find("tokens"), std::string::npos) << message;
  expect_contains(refusal("b.bin"), "UTF-16BE");
  expect_contains(refusal("b.bin"), "data.format tokens");  // it may be ids
}

TEST_F(DecideFormats, PointersAreNamedTogetherWhateverTheirNames) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  for (const char* name : {"x/notes.md", "x/a.jsonl", "x/b.parquet", "y/c.txt", "y/d.jsonl.gz"})
    folder_.write(name, pointer);
  folder_.write("y/e.txt", "text");
  folder_.write("y/f.csv", "a,b\n");
  std::vector<SourceFile> files =
      list_source_files({{folder_.str("x/*"), 1.0}, {folder_.str("y/*"), 1.0}});
  const auto message = [&](DataFormat format) {
    return error_of(ErrorKind::kData,
                    [&] { decide_formats(files, format, "text", "/data/train"); });
  };
  const std::string all = message(DataFormat::kAuto);
  for (const char* part :
       {"/data/train: 5 files of 7 not there yet: ", "notes.md", "a.jsonl", "b.parquet", "c.txt",
        "d.jsonl.gz: each is a pointer of git-lfs", "run git lfs pull"})
    expect_contains(all, part);
  for (const char* part : {"pattern", "f.csv", "data.format"})
    EXPECT_EQ(all.find(part), std::string::npos) << all;
  expect_contains(message(DataFormat::kJsonl), "5 files of 7");
  folder_.write("x/z.jsonl", pointer);
  files = list_source_files({{folder_.str("x/*"), 1.0}, {folder_.str("y/*"), 1.0}});
  expect_contains(message(DataFormat::kAuto), "and 1 more: each is");
}

TEST_F(DecideFormats, ATextMayBeginWithTheLettersOfAFormat) {
  for (const char* text :
       {"PARENTS and children", "PAR1 is Parquet's magic", "ARROW1 too", "GGUF is a format",
        "SQLite format 3 is described here", "Rar! said the raven"}) {
    folder_.write("file.txt", text);
    EXPECT_EQ(decide("file.txt"), (Formats{{"file.txt", "text"}})) << text;
  }
}

TEST_F(DecideFormats, EachEntryOfTheListForItself) {
  folder_.write("code/main.py", std::string(1000, 'x'));
  folder_.write("code/package.json", "{\n\"a\": 1}");
  folder_.write("data/a.jsonl", "{\"text\": \"a\"}\n");
  std::vector<SourceFile> files =
      list_source_files({{folder_.str("data"), 1.0}, {folder_.str("code"), 1.0}});
  decide_formats(files, DataFormat::kAuto, "text", "/data/train");
  EXPECT_EQ(files.size(), 3U);
  folder_.write("data/b.json", "[1]");
  files = list_source_files({{folder_.str("code"), 1.0}, {folder_.str("data"), 1.0}});
  expect_contains(
      error_of(ErrorKind::kConfig,
               [&] { decide_formats(files, DataFormat::kAuto, "text", "/data/train"); }),
      "/data/train/1: 1 file of 2");
  expect_contains(
      error_of(ErrorKind::kConfig, [&] { decide_formats(files, DataFormat::kAuto, "text", ""); }),
      "--format text");
}

TEST(DescribeFormats, FilesAndDocuments) {
  EXPECT_EQ(describe_formats({{"text", {12, 12}}, {"jsonl", {1, 41233}}}),
            "1 file as jsonl (41233 documents), 12 files as text (12 documents)");
}

}  // namespace
}  // namespace lmtrain
