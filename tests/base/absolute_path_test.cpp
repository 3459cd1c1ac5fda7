#include "base/absolute_path.h"

#include <gtest/gtest.h>

#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

TEST(AbsolutePath, IsOneStringForAllWaysToWriteAPath) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "a" / "b");
  const fs::path file = folder / "a" / "file";
  EXPECT_EQ(absolute_path(file), file);
  EXPECT_EQ(absolute_path(folder / "a" / "." / "file"), file);
  EXPECT_EQ(absolute_path(folder / "a" / "b" / ".." / "file"), file);
  EXPECT_EQ(absolute_path(folder / "gone" / ".." / "a" / "file"), file);
  EXPECT_EQ(absolute_path(folder.path().string() + "//a///file"), file);
  EXPECT_EQ(absolute_path("file"), fs::current_path() / "file");
  EXPECT_EQ(absolute_path("../file"), fs::current_path().parent_path() / "file");
}

// The system leaves the folder to which the link leads.
TEST(AbsolutePath, LeavesALinkedFolderAsTheSystemDoes) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "a" / "b");
  fs::create_directory_symlink(folder / "a" / "b", folder / "link");
  EXPECT_EQ(absolute_path(folder / "link" / "file"), folder / "link" / "file");
  const fs::path a = fs::canonical(folder / "a");
  EXPECT_EQ(absolute_path(folder / "link" / ".." / "file"), a / "file");
  EXPECT_EQ(absolute_path(folder / "link" / ".." / "b" / ".." / "c" / "file"), a / "c" / "file");
}

}  // namespace
}  // namespace lmtrain
