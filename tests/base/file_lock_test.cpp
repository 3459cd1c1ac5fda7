#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::exit_code_of;
using testing::in_child;
using testing::TemporaryFolder;

bool child_gets(const std::filesystem::path& path) {
  return exit_code_of([&] { return FileLock().try_acquire(path) ? 1 : 0; }) == 1;
}

TEST(FileLock, ExcludesOtherProcessesUntilReleased) {
  const TemporaryFolder folder;
  const auto path = folder / "lock";
  {
    FileLock lock;
    EXPECT_TRUE(lock.try_acquire(path));
    EXPECT_FALSE(child_gets(path));
    FileLock moved(std::move(lock));
    EXPECT_FALSE(child_gets(path));
    FileLock other;
    EXPECT_FALSE(other.try_acquire(path));
    other = std::move(moved);
    EXPECT_FALSE(child_gets(path));
    EXPECT_TRUE(other.try_acquire(path)) << "acquiring again gives up the lock held first";
  }
  EXPECT_TRUE(child_gets(path));
}

TEST(FileLock, EndsWithTheProcess) {
  const TemporaryFolder folder;
  const auto path = folder / "lock";
  const int status = in_child([&] {
    FileLock lock;
    if (!lock.try_acquire(path)) return 1;
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(FileLock().try_acquire(path));
}

TEST(FileLock, MissingFolderIsAnError) {
  const TemporaryFolder folder;
  error_of(ErrorKind::kIo, [&] { FileLock().try_acquire(folder / "missing/lock"); });
}

}  // namespace
}  // namespace lmtrain
