#include "text/sources.h"

#include <gtest/gtest.h>

#include "prepare/folder.h"

namespace lmtrain {
namespace {

using Texts = std::vector<std::string>;

TEST(ListSourceFiles, ByteOrderOfPathEachOnce) {
  const Folder folder;
  for (const char* name : {"b.txt", "a/z.txt", "a.txt", "B.txt", "a-b.txt"})
    folder.write(name, name);
  const auto files = list_source_files(
      {{folder.str("b.txt"), 2.0}, {folder.str(), 1.0}, {folder.str("*.txt"), 3.0}}, "/data/eval");
  Texts names;
  for (const SourceFile& file : files) names.push_back(file.path.lexically_relative(folder / ""));
  EXPECT_EQ(names, Texts({"B.txt", "a-b.txt", "a.txt", "a/z.txt", "b.txt"}));
  EXPECT_EQ(files.back().source, 0) << "the first source that names it";
  EXPECT_EQ(files.front().source, 1);
  EXPECT_EQ(files[3].size, 7U);
  EXPECT_GT(files[3].mtime_ns, 0);
}

TEST(ListSourceFiles, ANamedFileThatLooksUnfinishedIsReadWithAWarning) {
  const Folder folder;
  for (const char* name : {"a.txt.incomplete", "a.txt.part", "a.lock", "a.txt"}) {
    folder.write(name, name);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(list_source_files({{folder.str(name), 1.0}}).size(), 1U);
    const std::string said = ::testing::internal::GetCapturedStderr();
    const bool warns = said.find("it is read because it is named") != std::string::npos;
    EXPECT_EQ(warns, std::string(name) != "a.txt") << said;
  }
}

TEST(ListSourceFiles, AFileOfTwoNamedSetsBelongsToTheFirst) {
  const Folder folder;
  for (const char* name : {"a.txt", "b.txt", "c.md"}) folder.write(name, name);
  const std::vector<DataSourceConfig> sources = {{folder.str("c.md"), 1.0, "md"},
                                                 {folder.str("b.txt"), 1.0, "txt"},
                                                 {folder.str("*.txt"), 1.0, "txt"},
                                                 {folder.str(), 1.0, "all"}};
  ::testing::internal::CaptureStderr();
  const auto files = list_source_files({sources.begin(), sources.begin() + 3}, "/data/eval");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "one set may name a file twice";
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].source, 2);
  EXPECT_EQ(files[1].source, 1);
  EXPECT_EQ(files[2].source, 0);
  expect_contains(error_of(ErrorKind::kConfig, [&] { list_source_files(sources, "/data/eval"); }),
                  "/data/eval/all has no file of its own: all its files belong to sets before it");
  folder.write("d.py", "d");
  ::testing::internal::CaptureStderr();
  list_source_files(sources, "/data/eval");
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_contains(said, "warning: 1 of the 4 files of /data/eval/all/0 (\"" + folder.str() +
                            "\") belong to the set md, which names them first");
  expect_contains(error_of(ErrorKind::kUsage,
                           [&] {
                             list_source_files({{folder.str("a.txt"), 1.0, "x"},
                                                {folder.str("b.txt"), 1.0, "y"},
                                                {folder.str("none"), 1.0, "y"}},
                                               "/data/eval");
                           }),
                  "/data/eval/y/1: ");
}

// All its files are another's: its weight would count for nothing.
TEST(ListSourceFiles, AnEntryOfDataTrainWithoutAFileOfItsOwnIsRefused) {
  const Folder folder;
  for (const char* name : {"a.txt", "b.txt", "c.md"}) folder.write(name, name);
  const auto message = [&](const std::string& late) {
    return error_of(ErrorKind::kConfig, [&] {
      list_source_files({{folder.str(), 1.0}, {folder.str(late), 10.0}});
    });
  };
  for (const char* late : {"a.txt", "*.txt"}) {
    expect_contains(message(late), "/data/train/1 (\"" + folder.str(late) + "\", weight 10)");
    expect_contains(message(late), "/data/train/0 (\"" + folder.str() + "\", weight 1)");
    expect_contains(message(late), "name what is special first");
  }
  // The other way round each has files; and entries of one path are as good as one.
  EXPECT_EQ(list_source_files({{folder.str("*.txt"), 10.0}, {folder.str(), 1.0}}).size(), 3U);
}

TEST(ListSourceFiles, FilesLostToALowerWeightAreAWarning) {
  const Folder folder;
  for (const char* name : {"a.txt", "b.txt", "c.md"}) folder.write(name, name);
  const auto said = [&](double first, double second) {
    ::testing::internal::CaptureStderr();
    list_source_files({{folder.str("*.txt"), first}, {folder.str(), second}});
    return ::testing::internal::GetCapturedStderr();
  };
  expect_contains(said(1, 10), "warning: 2 of the 3 files of /data/train/1");
  expect_contains(said(10, 1), "2 of the 3 files of /data/train/1");
  EXPECT_EQ(said(10, 1).find("warning"), std::string::npos);
  EXPECT_EQ(said(2, 2), "");
}

TEST(ListSourceFiles, EachEntryThatTookFilesIsNamed) {
  const Folder folder;
  for (const char* name : {"a.txt", "b.txt", "c.md"}) folder.write(name, name);
  const auto list = [&](const char* last) {
    list_source_files(
        {{folder.str("a.txt"), 1.0}, {folder.str("b.txt"), 10.0}, {folder.str(last), 10.0}});
  };
  ::testing::internal::CaptureStderr();
  list("");
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_contains(said, "warning: 1 of the 3 files of /data/train/2");
  expect_contains(said, "belong to /data/train/0");
  EXPECT_EQ(said.find("belong to /data/train/1"), std::string::npos);
  const std::string message = error_of(ErrorKind::kConfig, [&] { list("*.txt"); });
  expect_contains(message, "all its files belong to /data/train/0");
  expect_contains(message, " and /data/train/1");
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

// A file is its device and inode.
TEST(ListSourceFiles, AFileThatLinksLeadToAgainIsTakenOnce) {
  const Folder folder;
  folder.write("b/x.txt", "x");
  folder.write("b/y.txt", "y");
  std::filesystem::create_directories(folder / "a");
  std::filesystem::create_symlink(folder / "b/x.txt", folder / "a/link.txt");
  std::filesystem::create_hard_link(folder / "b/y.txt", folder / "c.txt");
  const auto list = [&](const std::vector<std::string>& paths) {
    std::vector<DataSourceConfig> sources;
    for (const std::string& path : paths) sources.push_back({folder.str(path), 1.0});
    std::vector<std::string> names;
    for (const SourceFile& file : list_source_files(sources)) {
      names.push_back(str(file.path.lexically_relative(folder.path()).string(), " ", file.source));
    }
    return names;
  };
  using Lines = std::vector<std::string>;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(list({""}), Lines({"a/link.txt 0", "b/y.txt 0"})) << "the first in the order";
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_contains(said, "2 files left out that links lead to again: ");
  expect_contains(said, "b/x.txt is " + folder.str("a/link.txt"));
  // The first entry that names it, whatever the path.
  EXPECT_EQ(list({"b/x.txt", "**"}), Lines({"b/x.txt 0", "b/y.txt 1"}));
  expect_contains(error_of(ErrorKind::kConfig,
                           [&] {
                             list({"b/*", "a", "c.txt"});
                           }),
                  "no file of its own");
}

}  // namespace
}  // namespace lmtrain
