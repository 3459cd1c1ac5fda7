#include "text/splits.h"

#include <gtest/gtest.h>

#include "prepare/folder.h"

namespace lmtrain {
namespace {

using Paths = std::vector<std::filesystem::path>;

Paths below(const Paths& names) {
  Paths paths;
  for (const auto& name : names) paths.push_back("/data" / name);
  return paths;
}
Paths chosen(const Paths& names, Role role) {
  return select_split("/data", below(names), role).files;
}

TEST(Splits, AWordNamesAKind) {
  EXPECT_EQ(split_kind("Train"), SplitKind::kTrain);
  EXPECT_EQ(split_kind("dev"), SplitKind::kValidation);
  EXPECT_EQ(split_kind("EVAL"), SplitKind::kTest);
  EXPECT_EQ(split_kind("trainer"), SplitKind::kNone);
  EXPECT_EQ(split_kind(""), SplitKind::kNone);
}

TEST(Splits, ARoleTakesItsSplit) {
  EXPECT_EQ(choose_split({"test", "training", "dev"}, Role::kTrain), "training");
  EXPECT_EQ(choose_split({"test", "training", "dev"}, Role::kHeldOut), "dev");
  EXPECT_EQ(choose_split({"test", "training"}, Role::kHeldOut), "test");
  EXPECT_EQ(choose_split({"wiki", "books"}, Role::kTrain), "");
}

TEST(Splits, FilesOfTheRolesSplitAreChosen) {
  const Paths names = {"test.jsonl", "train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl",
                       "validation.jsonl.gz", "notes.md"};
  EXPECT_EQ(chosen(names, Role::kTrain), below({names[1], names[2], names[4]}));
  EXPECT_EQ(chosen(names, Role::kHeldOut), below({names[3]}));
  // By the outermost folder of a split's name.
  const Paths folders = {"test/train.txt", "train/test.txt"};
  EXPECT_EQ(chosen(folders, Role::kTrain), below({folders[1]}));
  // Another name beside parts of train is a split too.
  const Paths parts = {"train-00000-of-00001.parquet", "extra-00000-of-00001.parquet"};
  EXPECT_EQ(chosen(parts, Role::kTrain), below({parts[0]}));
}

TEST(Splits, ADecisionIsSaid) {
  const SplitFiles files =
      select_split("/data", below({"a/test.txt", "a/train.txt"}), Role::kTrain);
  ASSERT_EQ(files.notes.size(), 1U);
  expect_contains(files.notes[0],
                  "\"/data/a\" holds the splits test (1 file), train (1 file); train is taken");
  EXPECT_EQ(files.problem, "");
}

TEST(Splits, NoneThatFitsIsAProblem) {
  const Paths names = {"test.txt", "validation.txt"};
  expect_contains(select_split("/data", below(names), Role::kTrain).problem, "none named train");
  EXPECT_EQ(select_split("/data", below(names), Role::kHeldOut).problem, "");
}

TEST(Splits, WithoutSeveralSplitsAllFilesAreRead) {
  for (const Paths& names : {Paths{"train.txt", "more.txt"}, Paths{"test.txt"},
                             Paths{"src/train.py", "src/test.py"}, Paths{"a.txt", "b.txt"}}) {
    EXPECT_EQ(chosen(names, Role::kTrain), below(names));
    EXPECT_EQ(mixed_splits("/data", below(names)), "");
  }
  expect_contains(mixed_splits("/data", below({"train.txt", "test.txt"})),
                  "the pattern takes the splits test (1 file), train (1 file)");
}

// Folders of source code may be named like splits.
TEST(Splits, FoldersOfOtherFilesAreSplitsWhereAllAre) {
  const Paths code = {"eval/a.cpp", "training/b.cpp", "model/c.cpp", "main.cpp"};
  EXPECT_EQ(chosen(code, Role::kTrain), below(code));
  EXPECT_EQ(mixed_splits("/data", below(code)), "");
  const Paths splits = {"test/a.md", "train/b.md", "README"};
  EXPECT_EQ(chosen(splits, Role::kTrain), below({splits[1], splits[2]}));
  EXPECT_NE(mixed_splits("/data", below(splits)), "");
  const Paths data = {"test/a.jsonl", "train/b.jsonl", "src/c.py"};
  EXPECT_EQ(chosen(data, Role::kTrain), below({data[1], data[2]}));
}

TEST(Splits, DataIsKnownByItsExtension) {
  for (const char* name : {"a.jsonl", "a.txt.gz", "a.parquet", "a.json.zst"})
    EXPECT_TRUE(is_data_name(name)) << name;
  for (const char* name : {"train.py", "README", "a.md"}) EXPECT_FALSE(is_data_name(name)) << name;
}

}  // namespace
}  // namespace lmtrain
