#include "text/glob.h"

#include <gtest/gtest.h>

#include "prepare/folder.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

TEST(Glob, Components) {
  const auto matches = [](const char* pattern, const char* name) {
    return matches_component(pattern, name);
  };
  EXPECT_TRUE(matches("*", "a"));
  EXPECT_TRUE(matches("*.py", "a.py"));
  EXPECT_FALSE(matches("*.py", "a.pyc"));
  EXPECT_TRUE(matches("a*b*c", "a__b_b__c"));
  EXPECT_FALSE(matches("a*b*c", "a__b_b__d"));
  EXPECT_TRUE(matches("?.txt", "x.txt"));
  EXPECT_FALSE(matches("?.txt", ".txt"));
  EXPECT_TRUE(matches("?.txt", "\xC3\xA9.txt")) << "? is one character, not one byte";
  EXPECT_TRUE(matches("part-[0-3].txt", "part-2.txt"));
  EXPECT_FALSE(matches("part-[0-3].txt", "part-4.txt"));
  EXPECT_TRUE(matches("[!a-c]x", "dx"));
  EXPECT_FALSE(matches("[!a-c]x", "bx"));
  EXPECT_TRUE(matches("[]]", "]"));
  EXPECT_TRUE(matches("[a-]", "-"));
  EXPECT_TRUE(matches("a[b", "a[b")) << "an open bracket is an ordinary character";
  EXPECT_FALSE(matches("*", ".hidden"));
  EXPECT_TRUE(matches(".*", ".hidden"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

class FindFiles : public ::testing::Test {
 protected:
  FindFiles() {
    for (const char* name :
         {"a.py", "b.txt", ".hidden.py", "sub/c.py", "sub/deep/d.py", ".git/e.py", "sub2/f.py"}) {
      folder_.write(name, "x");
    }
  }

  // Paths relative to the folder, in byte order.
  std::vector<std::string> find(const std::string& pattern) {
    std::vector<std::string> names;
    for (const fs::path& path : find_files(folder_.str(pattern))) {
      names.push_back(path.lexically_relative(folder_ / ""));
    }
    return names;
  }
  using Names = std::vector<std::string>;

  Folder folder_;
};

TEST_F(FindFiles, FileFolderAndGlob) {
  EXPECT_EQ(find("a.py"), Names({"a.py"}));
  EXPECT_EQ(find(".hidden.py"), Names({".hidden.py"})) << "named";
  EXPECT_EQ(find("sub"), Names({"sub/c.py", "sub/deep/d.py"}));
  EXPECT_EQ(find("sub/"), Names({"sub/c.py", "sub/deep/d.py"}));
  EXPECT_EQ(find(".git"), Names({".git/e.py"})) << "a hidden folder that is named";
  EXPECT_EQ(find("*.py"), Names({"a.py"}));
  EXPECT_EQ(find("*/*.py"), Names({"sub/c.py", "sub2/f.py"}));
  EXPECT_EQ(find("**/*.py"), Names({"a.py", "sub/c.py", "sub/deep/d.py", "sub2/f.py"}));
  EXPECT_EQ(find("**"), Names({"a.py", "b.txt", "sub/c.py", "sub/deep/d.py", "sub2/f.py"}));
  EXPECT_EQ(find("sub/**/d.py"), Names({"sub/deep/d.py"}));
  EXPECT_EQ(find("**/deep/**"), Names({"sub/deep/d.py"}));
  EXPECT_EQ(find("sub[0-9]/*"), Names({"sub2/f.py"}));
  EXPECT_EQ(find("sub/../a.py").size(), 1U);
  EXPECT_EQ(find("nothing"), Names());
  EXPECT_EQ(find("*.cpp"), Names());
}

TEST_F(FindFiles, ANameWithWildcardsThatExistsIsThatFile) {
  folder_.write("odd[1].txt", "x");
  folder_.write("odd1.txt", "x");
  EXPECT_EQ(find("odd[1].txt"), Names({"odd[1].txt"}));
}

TEST_F(FindFiles, LinksThatLeadToNothingAreSaid) {
  fs::create_symlink("nothing", folder_ / "sub2/dead.py");
  fs::create_symlink("dead.txt", folder_ / "sub2/dead.txt");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(find("sub2"), Names({"sub2/f.py"}));
  EXPECT_EQ(find("sub2/*.py"), Names({"sub2/f.py"}));
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_contains(said, "2 links that lead to no file are left out");
  expect_contains(said, "1 link that leads to no file is left out");
  expect_contains(said, folder_.str("sub2/dead.py"));
}

// Without the check the first way into /proc ends with whatever the kernel refuses first.
TEST_F(FindFiles, TheKernelsFoldersAreRefused) {
  fs::create_directory_symlink("/proc", folder_ / "kernel");
  for (const char* pattern : {"", "kernel", "kernel/**", "*/self/*"}) {
    expect_contains(error_of(ErrorKind::kUsage, [&] { find(pattern); }), "state of the kernel");
  }
  expect_contains(error_of(ErrorKind::kUsage, [] { find_files("/"); }), "state of the kernel");
}

TEST_F(FindFiles, AFolderThatCannotBeListedIsAnErrorWithItsName) {
  if (::geteuid() == 0) GTEST_SKIP() << "nothing is forbidden to root";
  fs::permissions(folder_ / "sub/deep", fs::perms::none);
  expect_contains(error_of(ErrorKind::kIo, [&] { find("sub"); }), folder_.str("sub/deep"));
  fs::permissions(folder_ / "sub/deep", fs::perms::owner_read);  // its names alone
  expect_contains(error_of(ErrorKind::kIo, [&] { find("sub"); }), folder_.str("sub/deep/d.py"));
  fs::permissions(folder_ / "sub/deep", fs::perms::owner_all);
}

TEST_F(FindFiles, LinksAreFollowedAndLoopsEnd) {
  fs::create_directory_symlink("..", folder_ / "sub/up");
  fs::create_symlink("../b.txt", folder_ / "sub2/link.txt");
  EXPECT_EQ(find("sub2"), Names({"sub2/f.py", "sub2/link.txt"}));
  EXPECT_EQ(find("**/*.py").size(), 4U);
  EXPECT_EQ(find("").size(), 6U);
}

}  // namespace
}  // namespace lmtrain
