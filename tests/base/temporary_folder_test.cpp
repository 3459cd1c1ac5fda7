#include "base/temporary_folder.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "base/support.h"

namespace lmtrain {
namespace {

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(TemporaryFolder, GoesWithItsFiles) {
  std::filesystem::path path;
  {
    const TemporaryFolder outer;
    const Variable variable("TMPDIR", outer.path().string());
    const TemporaryFolder inner;
    EXPECT_EQ(inner.path().parent_path(), outer.path());
    path = outer.path();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolder, NamesAFolderThatCannotBeUsedAndTheCause) {
  const Variable variable("TMPDIR", "/nowhere at all");
  try {
    const TemporaryFolder folder;
    FAIL() << folder.path();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_STREQ(error.what(),
                 "cannot create a folder in /nowhere at all: No such file or directory; free some "
                 "space there, or set TMPDIR to another folder");
  }
}

namespace fs = std::filesystem;
using testing::error_of;
using testing::replace_file;
using testing::TemporaryFolder;

TEST(ScratchFolder, GoesWithItsOwner) {
  const TemporaryFolder folder;
  {
    const ScratchFolder scratch({folder.path()}, "scratch", 1);
    EXPECT_EQ(scratch.path(), folder / "scratch");
    fs::create_directories(scratch.path() / "deeper");
    replace_file(scratch.path() / "deeper/file", "x");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ScratchFolder, IsEmptiedWhereItsOwnerWasKilled) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "scratch/deeper");
  replace_file(folder / "scratch/deeper/file", "x");
  replace_file(folder / "scratch/.lock", "");
  const ScratchFolder scratch({folder.path()}, "scratch", 1);
  EXPECT_FALSE(fs::exists(scratch.path() / "deeper"));
}

TEST(ScratchFolder, HasOneOwner) {
  const TemporaryFolder folder;
  const ScratchFolder scratch({folder.path()}, "scratch", 1);
  replace_file(scratch.path() / "file", "x");
  const std::string message =
      error_of(ErrorKind::kUsage, [&] { ScratchFolder({folder.path()}, "scratch", 1); });
  EXPECT_NE(message.find("in use"), std::string::npos) << message;
  EXPECT_TRUE(fs::exists(scratch.path() / "file"));
}

TEST(ScratchFolder, TakesTheFirstParentThatWillDo) {
  const TemporaryFolder folder;
  replace_file(folder / "file", "no folder");
  fs::create_directories(folder / "second");
  const ScratchFolder scratch({folder / "file", folder / "second"}, "scratch", 1);
  EXPECT_EQ(scratch.path(), folder / "second/scratch");
}

TEST(ScratchFolder, WithoutRoomNamesEachParentAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::string message = error_of(ErrorKind::kIo, [&] {
    ScratchFolder({folder.path(), folder / "second"}, "scratch", uint64_t{1} << 60);
  });
  EXPECT_NE(message.find((folder / "scratch").string()), std::string::npos) << message;
  EXPECT_NE(message.find((folder / "second/scratch").string()), std::string::npos) << message;
  EXPECT_NE(message.find("free"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(folder / "scratch"));
}

}  // namespace

}  // namespace lmtrain
