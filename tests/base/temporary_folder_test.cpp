#include "base/temporary_folder.h"

#include <gtest/gtest.h>

#include <optional>

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

}  // namespace
}  // namespace lmtrain
