// What the operating system refuses: every failed write must be told, and must leave what was
// there.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::exit_code_of;
using testing::TemporaryFolder;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DiskFull, EveryWayOfWritingTells) {
  const std::string written = error_of(ErrorKind::kIo, [] {
    FileWriter writer("/dev/full");
    writer.write("x");
  });
  EXPECT_TRUE(has(written, "/dev/full") && has(written, "free some space")) << written;
  error_of(ErrorKind::kIo, [] { append_file("/dev/full", "x", false); });
}

TEST(DiskFull, AtomicWriteKeepsTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "status.json", "old");
  // The temporary file is where the bytes go first.
  fs::create_symlink("/dev/full", folder / "status.json.tmp");
  error_of(ErrorKind::kIo, [&] { write_file_atomic(folder / "status.json", "new"); });
  EXPECT_EQ(read_file(folder / "status.json"), "old");
}

// A short write followed by EFBIG: the first part succeeds, and only the next call says why.
TEST(FileSizeLimit, ShortWriteIsAnError) {
  const TemporaryFolder folder;
  const int code = exit_code_of([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    FileWriter writer(folder / "file");
    writer.write(std::string(800, 'x'));
    try {
      writer.write(std::string(800, 'x'));
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kIo && has(error.what(), "ulimit") ? 0 : 2;
    }
    return 3;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(fs::file_size(folder / "file"), 1000U);
}

TEST(FileSizeLimit, AtomicWriteKeepsTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "old");
  const int code = exit_code_of([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    try {
      write_file_atomic(folder / "file", std::string(2000, 'x'));
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kIo ? 0 : 2;
    }
    return 3;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(list_folder(folder.path()), std::vector<std::string>{"file"});
}

TEST(Permission, IsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "nothing is forbidden to root";
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "x");
  fs::permissions(folder / "file", fs::perms::none);
  const std::string message = error_of(ErrorKind::kIo, [&] { read_file(folder / "file"); });
  EXPECT_TRUE(has(message, "permission")) << message;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  error_of(ErrorKind::kIo, [&] { write_file_atomic(folder / "other", "x"); });
  fs::permissions(folder.path(), fs::perms::owner_all);
}

}  // namespace
}  // namespace lmtrain
