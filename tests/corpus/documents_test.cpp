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
