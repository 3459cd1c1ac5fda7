#include "base/lost_pages.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;

constexpr size_t kFileBytes = size_t{3} << 12;

class LostPages : public ::testing::Test {
 protected:
  LostPages() {
    handle_lost_pages();
    testing::replace_file(path(), std::string(kFileBytes, 'x'));
  }
  ~LostPages() override { std::signal(SIGBUS, SIG_DFL); }
  fs::path path() const { return folder_ / "mapped"; }

  // The byte at `offset`, which the compiler must not have kept.
  static char read(const MappedFile& file, size_t offset) {
    return *const_cast<const volatile char*>(file.bytes().data() + offset);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(LostPages, OfAFileThatWasCutShortReadAsZerosAndAreAnError) {
  testing::replace_file(folder_ / "other", std::string(kFileBytes, 'y'));
  const MappedFile file(path());
  const MappedFile other(folder_ / "other");
  survive_lost_pages(file);
  survive_lost_pages(other);
  require_whole(file);
  truncate_file(path(), kFileBytes / 3);
  EXPECT_EQ(read(file, 0), 'x');
  require_whole(file);
  EXPECT_EQ(read(file, kFileBytes / 2), '\0');
  EXPECT_EQ(read(file, kFileBytes - 1), '\0');
  const std::string said = error_of(ErrorKind::kData, [&] { require_whole(file); });
  EXPECT_EQ(said.find(path().string() + " was cut short"), 0U) << said;
  EXPECT_EQ(read(other, kFileBytes - 1), 'y');
  require_whole(other);
}

// A file system that loses the file under the mapping.
TEST_F(LostPages, OfAFileThatHasItsSizeAreAnErrorOfTheFileSystem) {
  MappedFile first(path());
  survive_lost_pages(first);
  const MappedFile file = std::move(first);  // the mapping stays the same
  fs::rename(path(), folder_ / "moved");
  testing::replace_file(path(), std::string(kFileBytes, 'x'));
  truncate_file(folder_ / "moved", 0);
  EXPECT_EQ(read(file, kFileBytes - 1), '\0');
  const std::string said = error_of(ErrorKind::kIo, [&] { require_whole(file); });
  EXPECT_NE(said.find(path().string()), std::string::npos) << said;
}

TEST_F(LostPages, OfAFileMappedAnewAreForgotten) {
  {
    const MappedFile file(path());
    survive_lost_pages(file);
    truncate_file(path(), 0);
    read(file, 0);
    error_of(ErrorKind::kData, [&] { require_whole(file); });
  }
  testing::replace_file(path(), std::string(kFileBytes, 'z'));
  const MappedFile file(path());
  EXPECT_EQ(read(file, 0), 'z');
  require_whole(file);
}

TEST_F(LostPages, OfOtherFilesEndTheProcessWithTheirName) {
  const auto read_cut = [&] {
    const MappedFile file(path());
    truncate_file(path(), 0);
    read(file, kFileBytes - 1);
  };
  EXPECT_EXIT(read_cut(), ::testing::ExitedWithCode(3), path().string() + " was cut short");
}

TEST_F(LostPages, OtherBusErrorsEndTheProcessAsEver) {
  const int status = testing::in_child([] {
    ::raise(SIGBUS);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGBUS);
}

}  // namespace
}  // namespace lmtrain
