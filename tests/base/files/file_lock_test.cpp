#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
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
    lock.acquire(path);
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(FileLock().try_acquire(path));
}

TEST(FileLock, AcquireWaits) {
  const TemporaryFolder folder;
  const auto path = folder / "lock";
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    FileLock lock;
    lock.acquire(path);
    const bool told = ::write(ready[1], "x", 1) == 1;
    ::usleep(200'000);
    append_file(path, "child", false);
    ::_exit(told ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  FileLock lock;
  EXPECT_FALSE(lock.try_acquire(path));
  lock.acquire(path);
  EXPECT_EQ(read_file(path), "child");
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(FileLock, MissingFolderIsAnError) {
  const TemporaryFolder folder;
  error_of(ErrorKind::kIo, [&] { FileLock().try_acquire(folder / "missing/lock"); });
  error_of(ErrorKind::kIo, [&] { FileLock().acquire(folder / "missing/lock"); });
}

}  // namespace
}  // namespace lmtrain
