#include "report/run_labels.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

using Labels = std::vector<std::string>;

TEST(RunLabels, TheFolderNameIsEnoughWhereItDiffers) {
  EXPECT_EQ(run_labels({"/runs/a", "/runs/b"}), (Labels{"a", "b"}));
  EXPECT_EQ(run_labels({"/runs/a"}), Labels{"a"});
}

TEST(RunLabels, RunsOfOneNameAreToldApartByTheFoldersAround) {
  EXPECT_EQ(run_labels({"/x/tiny", "/y/tiny", "/y/other"}), (Labels{"x/tiny", "y/tiny", "other"}));
  EXPECT_EQ(run_labels({"/p/x/tiny", "/q/x/tiny", "/r/tiny"}),
            (Labels{"p/x/tiny", "q/x/tiny", "r/tiny"}));
  // One path ends another.
  EXPECT_EQ(run_labels({"/tiny", "/a/tiny"}), (Labels{"tiny", "a/tiny"}));
  EXPECT_EQ(run_labels({"/"}), Labels{"/"});
}

TEST(RunLabels, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(run_labels({"/runs/a\xff"}), Labels{"a\xEF\xBF\xBD"});
}

}  // namespace
}  // namespace lmtrain
