#include "base/link.h"

#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

TEST(Link, IsToldFromWhatItLeadsTo) {
  const testing::TemporaryFolder folder;
  fs::create_directory(folder / "folder");
  fs::create_symlink(folder / "folder", folder / "link");
  fs::create_symlink(folder / "nowhere", folder / "dangling");
  EXPECT_TRUE(is_link(folder / "link"));
  EXPECT_TRUE(is_link(folder / "dangling"));
  for (const char* name : {"folder", "missing", "missing/deeper", "link/."})
    EXPECT_FALSE(is_link(folder / name)) << name;
}

}  // namespace
}  // namespace lmtrain
