#include "corpus/documents.h"

#include <gtest/gtest.h>

#include "corpus/folder.h"

namespace lmtrain {
namespace {

using Texts = std::vector<std::string>;

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
  EXPECT_EQ(resolve_format("a.parquet", "auto"), "parquet");
  EXPECT_EQ(resolve_format("data-00000-of-00002.arrow", "auto"), "arrow");
  EXPECT_EQ(resolve_format("a.jsonl.gz", "auto"), "jsonl");
  EXPECT_EQ(resolve_format("a.jsonl.zst", "auto"), "jsonl");
  EXPECT_EQ(resolve_format("a.ndjson.bz2", "auto"), "jsonl");
  EXPECT_EQ(resolve_format("a.txt.zstd", "auto"), "text");
  EXPECT_EQ(resolve_format("a.gz", "auto"), "text");
  EXPECT_EQ(resolve_format("a.jsonl", "text"), "text");
  EXPECT_EQ(resolve_format("a.txt", "lines"), "lines");
  EXPECT_EQ(resolve_format("a.gz", "jsonl"), "jsonl");
  EXPECT_EQ(resolve_format("a", "parquet"), "parquet");
}

TEST(ResolveFormat, WhatIsNotReadIsRefusedWithAdvice) {
  const auto message = [](const char* path, const char* format) {
    return error_of(ErrorKind::kConfig, [&] { resolve_format(path, format); });
  };
  for (const char* path : {"a.xz", "a.jsonl.lz4", "a.zip"}) {
    expect_contains(message(path, "auto"), path);
    expect_contains(message(path, "text"), ".zst");
  }
  expect_contains(message("a.parquet.gz", "auto"), "unpack it");
  expect_contains(message("a.gz", "arrow"), "unpack it");
  expect_contains(message("a.bin", "tokens"), "tokens");
}

TEST(RequireUnchanged, SizeAndTime) {
  const Folder folder;
  folder.write("a", "text");
  const SourceFile file = list_source_files({{folder.str("a"), 1.0}})[0];
  require_unchanged(file);
  folder.write("a", "longer text");
  expect_contains(error_of(ErrorKind::kData, [&] { require_unchanged(file); }), "changed while");
}

}  // namespace
}  // namespace lmtrain
