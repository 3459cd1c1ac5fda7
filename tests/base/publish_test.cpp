#include "base/publish.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/syscall.h>

#include <cerrno>
#include <set>

#include "base/examine.h"
#include "base/file.h"
#include "base/killed_at_call.h"
#include "base/support.h"

namespace {
bool g_refuses_exchange = false;
}  // namespace
// In the place of the C library's: a file system that cannot exchange says EINVAL.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) noexcept {
  if (g_refuses_exchange) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

}  // namespace

// One folder in the place of another: whole at every moment, on file systems that can exchange and
// on those that cannot.

namespace {

using testing::ChildEnd;
using testing::killed_at_call;
using testing::replace_file;
using testing::TemporaryFolder;

class ReplaceFolder : public ::testing::TestWithParam<bool> {
 protected:
  ReplaceFolder() { g_refuses_exchange = GetParam(); }
  ~ReplaceFolder() override { g_refuses_exchange = false; }

  void make(const fs::path& path, const std::string& text) const {
    fs::create_directories(path);
    for (const char* name : {"a", "b"}) replace_file(path / name, text);
  }
  // The text of both files; empty where there is none, or they differ.
  static std::string text_of(const fs::path& path) {
    if (!fs::exists(path / "a") || !fs::exists(path / "b")) return "";
    const std::string text = read_file(path / "a");
    return text == read_file(path / "b") ? text : "";
  }
  size_t names() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(parent), fs::directory_iterator()));
  }

  TemporaryFolder folder;
  const fs::path parent = folder / "parent", from = parent / ".tmp-step", to = parent / "step";
};

TEST_P(ReplaceFolder, LeavesTheNewOneAlone) {
  make(from, "new");
  replace_folder(from, to);  // nothing was there
  EXPECT_EQ(text_of(to), "new");
  make(from, "newer");
  replace_folder(from, to);
  EXPECT_EQ(text_of(to), "newer");
  EXPECT_EQ(names(), 1U);
}

TEST_P(ReplaceFolder, OfALinkTheLinkAloneGoes) {
  make(folder / "archive", "archived");
  make(from, "new");
  fs::create_directory_symlink(folder / "archive", to);
  replace_folder(from, to);
  EXPECT_FALSE(fs::is_symlink(to));
  EXPECT_EQ(text_of(to), "new");
  EXPECT_EQ(text_of(folder / "archive"), "archived");
  EXPECT_EQ(names(), 1U);
}

TEST_P(ReplaceFolder, AMissingNewOneIsAnErrorAndTheOldOneStays) {
  make(to, "old");
  EXPECT_THROW(replace_folder(from, to), Error);
  put_back_replaced(parent);
  EXPECT_EQ(text_of(to), "old");
}

TEST_P(ReplaceFolder, KilledAtAnyMomentOneOfTheTwoIsThere) {
  std::set<std::string> seen;
  int moment = 0;
  for (ChildEnd end = ChildEnd::kKilled; end == ChildEnd::kKilled; ++moment) {
    fs::remove_all(parent);
    make(from, "new");
    make(to, "old");
    end = killed_at_call(moment, [&] { replace_folder(from, to); });
    if (end == ChildEnd::kUntraceable) GTEST_SKIP() << "no process may be traced here";
    ASSERT_NE(end, ChildEnd::kFailed);
    if (!GetParam()) {
      EXPECT_NE(text_of(to), "") << "a reader finds none at moment " << moment;
    }
    put_back_replaced(parent);
    EXPECT_NE(text_of(to), "") << "moment " << moment;
    seen.insert(text_of(to));
    EXPECT_FALSE(fs::exists(parent / ".replaced-step"));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"new", "old"}));
  EXPECT_GT(moment, 10);
}

INSTANTIATE_TEST_SUITE_P(FileSystems, ReplaceFolder, ::testing::Bool(), [](const auto& test) {
  return test.param ? "WithoutExchange" : "WithExchange";
});

TEST(PutBackReplaced, OfAMissingFolderDoesNothing) {
  const TemporaryFolder folder;
  put_back_replaced(folder / "none");
  EXPECT_FALSE(fs::exists(folder / "none"));
}

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
