#include "base/examine.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::exit_code_of;
using testing::TemporaryFolder;

TEST(Examine, TellsWhatThereIs) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "12345");
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("nothing", folder / "dead");
  fs::create_symlink("loop", folder / "loop");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(examine(folder / "file").size, 5U);
  EXPECT_EQ(examine(folder / "link").inode, examine(folder / "file").inode);
  EXPECT_GT(examine(folder / "file").mtime_ns, 0);
  EXPECT_TRUE(is_file(folder / "link"));
  EXPECT_TRUE(is_folder(folder.path()));
  EXPECT_FALSE(is_file(folder.path()));
  EXPECT_TRUE(is_there(folder / "pipe"));
  EXPECT_FALSE(is_file(folder / "pipe"));
  for (const fs::path& missing : {folder / "dead", folder / "loop", folder / "nothing",
                                  folder / "file/below", folder / std::string(300, 'x')}) {
    EXPECT_EQ(examine(missing).kind, FileKind::kMissing) << missing;
  }
  EXPECT_EQ(file_kind_name(folder / "pipe"), "a pipe");
  EXPECT_EQ(file_kind_name(folder.path()), "a folder");
  EXPECT_EQ(file_kind_name("/dev/zero"), "a device");
}

TEST(Link, IsToldFromWhatItLeadsTo) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "folder");
  fs::create_symlink(folder / "folder", folder / "link");
  fs::create_symlink(folder / "nowhere", folder / "dangling");
  EXPECT_TRUE(is_link(folder / "link"));
  EXPECT_TRUE(is_link(folder / "dangling"));
  for (const char* name : {"folder", "missing", "missing/deeper", "link/."})
    EXPECT_FALSE(is_link(folder / name)) << name;
}

TEST(Examine, APathThatCannotBeLookedAtIsAnErrorWithItsName) {
  if (::geteuid() == 0) GTEST_SKIP() << "nothing is forbidden to root";
  const TemporaryFolder folder;
  fs::create_directory(folder / "closed");
  write_file_atomic(folder / "closed/file", "x");
  fs::permissions(folder / "closed", fs::perms::none);
  const std::string message = error_of(ErrorKind::kIo, [&] { examine(folder / "closed/file"); });
  EXPECT_NE(message.find((folder / "closed/file").string()), std::string::npos) << message;
  error_of(ErrorKind::kIo, [&] { list_folder_if_there(folder / "closed"); });
  fs::permissions(folder / "closed", fs::perms::owner_all);
}

TEST(ListFolder, NamesInByteOrder) {
  const TemporaryFolder folder;
  EXPECT_TRUE(list_folder(folder.path()).empty());
  for (const char* name : {"b", "a", ".hidden", "B"}) write_file_atomic(folder / name, "");
  const std::vector<std::string> names = {".hidden", "B", "a", "b"};
  EXPECT_EQ(list_folder(folder.path()), names);
  EXPECT_EQ(list_folder_if_there(folder.path()), names);
  EXPECT_TRUE(list_folder_if_there(folder / "missing").empty());
  error_of(ErrorKind::kIo, [&] { list_folder(folder / "missing"); });
  error_of(ErrorKind::kIo, [&] { list_folder_if_there(folder / "a"); });
}

// A folder that cannot be opened is not an empty one.
TEST(ListFolder, WithoutADescriptorIsAnErrorWithTheName) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "x");
  EXPECT_EQ(exit_code_of([&] {
              const rlimit none{0, 0};
              if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
              try {
                list_folder_if_there(folder.path());
              } catch (const Error& error) {
                const std::string message = error.what();
                const bool named = message.find(folder.path().string()) != std::string::npos;
                return error.kind() == ErrorKind::kIo && named ? 0 : 2;
              }
              return 3;
            }),
            0);
}

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

TEST(WithoutFinalSlash, LeavesWhatThePathNames) {
  for (const auto& [path, wanted] : std::vector<std::pair<fs::path, fs::path>>{
           {"", ""}, {"/", "/"}, {"a", "a"}, {"a/", "a"}, {"a//", "a"}, {"/a/b/", "/a/b"}})
    EXPECT_EQ(without_final_slash(path).native(), wanted.native());
}

}  // namespace

}  // namespace lmtrain
