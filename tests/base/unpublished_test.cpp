#include "base/unpublished.h"

#include <gtest/gtest.h>

#include "base/examine.h"
#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::replace_file;
using testing::TemporaryFolder;

TEST(Unpublished, AppearsWhole) {
  const TemporaryFolder folder;
  const fs::path target = folder / "above/and/name";
  {
    Unpublished unpublished(target, FileKind::kFolder);
    fs::create_directory(unpublished.path());
    replace_file(unpublished.path() / "file", "text");
    EXPECT_FALSE(is_there(target));
    EXPECT_EQ(unpublished.path().parent_path(), target.parent_path());
    EXPECT_TRUE(unpublished.path().filename().string().starts_with(".name.tmp-"));
    unpublished.publish();
  }
  EXPECT_EQ(read_file(target / "file"), "text");
  EXPECT_EQ(list_folder(target.parent_path()), std::vector<std::string>{"name"});
}

TEST(Unpublished, LeavesNothingWhereItIsNotPublished) {
  const TemporaryFolder folder;
  for (const bool is_folder : {true, false}) {
    const FileKind kind = is_folder ? FileKind::kFolder : FileKind::kFile;
    const Unpublished unpublished(folder / "name", kind);
    const Unpublished another(folder / "name", kind);
    if (is_folder) {
      fs::create_directory(unpublished.path());
      replace_file(unpublished.path() / "file", "text");
      // Two of one process do not meet.
      EXPECT_NE(Unpublished(folder / "name", kind).path(), unpublished.path());
    } else {
      replace_file(unpublished.path(), "text");
    }
  }
  EXPECT_EQ(list_folder(folder.path()), std::vector<std::string>{});
}

TEST(Unpublished, TakesTheEmptyFolderThatIsThere) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "name");
  Unpublished unpublished(folder / "name/",
                          FileKind::kFolder);  // a slash at the end names the same
  fs::create_directory(unpublished.path());
  replace_file(unpublished.path() / "file", "text");
  unpublished.publish();
  EXPECT_EQ(read_file(folder / "name/file"), "text");
}

// A folder cannot be renamed to a link.
TEST(Unpublished, FollowsALinkToAnEmptyFolder) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "disk");
  fs::create_directory_symlink("disk", folder / "name");
  Unpublished unpublished(folder / "name", FileKind::kFolder);
  fs::create_directory(unpublished.path());
  replace_file(unpublished.path() / "file", "text");
  unpublished.publish();
  EXPECT_TRUE(fs::is_symlink(folder / "name"));
  EXPECT_EQ(read_file(folder / "disk/file"), "text");
}

TEST(Unpublished, ReplacesAFileWhereThatIsAskedForAndNothingBesideIt) {
  const TemporaryFolder folder;
  replace_file(folder / "page.tmp", "mine");
  for (const char* text : {"first", "second"}) {
    replace_file_of_user(folder / "page", text);
    EXPECT_EQ(read_file(folder / "page"), text);
  }
  fs::create_directory(folder / "empty");
  EXPECT_NE(error_of(ErrorKind::kUsage, [&] { replace_file_of_user(folder / "empty", "text"); })
                .find("a file is to be written"),
            std::string::npos);
  EXPECT_EQ(list_folder(folder.path()), (std::vector<std::string>{"empty", "page", "page.tmp"}));
}

TEST(Unpublished, OverwritesNothing) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "full");
  replace_file(folder / "full/file", "mine");
  fs::create_directory(folder / "empty");
  fs::create_symlink("nowhere", folder / "dead");
  const auto problem = [&](const std::string& name, FileKind kind) {
    return error_of(ErrorKind::kUsage, [&] { Unpublished{folder / name, kind}; });
  };
  EXPECT_NE(problem("full", FileKind::kFolder).find("full is a folder that is not empty"),
            std::string::npos);
  EXPECT_NE(problem("full/file", FileKind::kFolder).find("is there already"), std::string::npos);
  EXPECT_NE(problem("empty", FileKind::kFile).find("a file is to be written"), std::string::npos);
  EXPECT_NE(problem("dead", FileKind::kFolder).find("is a link that leads nowhere"),
            std::string::npos);
  // Nor what has appeared meanwhile.
  Unpublished late(folder / "late", FileKind::kFile);
  replace_file(late.path(), "ours");
  replace_file(folder / "late", "theirs");
  EXPECT_NE(error_of(ErrorKind::kUsage, [&] { late.publish(); }), "");
  EXPECT_EQ(read_file(folder / "late"), "theirs");
  EXPECT_EQ(read_file(folder / "full/file"), "mine");
}

}  // namespace
}  // namespace lmtrain
