#include "base/joint_file.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::TemporaryFolder;

TEST(JointFile, HoldsWhatEachHasWritten) {
  const TemporaryFolder folder;
  create_joint_file(folder / "f", 3);
  EXPECT_TRUE(write_in_joint_file(folder / "f", 2, 3));
  EXPECT_TRUE(write_in_joint_file(folder / "f", 0, 3));
  EXPECT_TRUE(holds_writes(folder / "f", {0, 2}, 3));
  EXPECT_FALSE(holds_writes(folder / "f", {0, 1, 2}, 3));
  EXPECT_TRUE(write_in_joint_file(folder / "f", 1, 3));
  EXPECT_TRUE(holds_writes(folder / "f", {0, 1, 2}, 3));
}

TEST(JointFile, IsNotMadeByThoseWhoDoNotSeeIt) {
  const TemporaryFolder folder;
  EXPECT_FALSE(write_in_joint_file(folder / "f", 1, 2));
  EXPECT_FALSE(std::filesystem::exists(folder / "f"));
}

// A machine writes the page around a part, as it knows it: the others' parts are lost.
TEST(JointFile, ShowsAPageThatWasWrittenWhole) {
  const TemporaryFolder folder;
  create_joint_file(folder / "f", 2);
  const std::string before = read_file(folder / "f");
  for (const int rank : {0, 1}) write_in_joint_file(folder / "f", rank, 2);
  ASSERT_TRUE(holds_writes(folder / "f", {0, 1}, 2));
  overwrite_file(folder / "f", 4096, std::string_view(before).substr(4096, 4096));
  EXPECT_FALSE(holds_writes(folder / "f", {0, 1}, 2));
}

}  // namespace
}  // namespace lmtrain
