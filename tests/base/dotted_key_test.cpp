#include "base/dotted_key.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

using Parts = std::vector<std::string>;

TEST(DottedKey, IsCutAtEachDot) {
  EXPECT_EQ(key_parts("optimizer.lr"), Parts({"optimizer", "lr"}));
  EXPECT_EQ(key_parts("text"), Parts({"text"}));
  EXPECT_EQ(key_parts(""), Parts({""}));
  EXPECT_EQ(key_parts(".a..b."), Parts({"", "a", "", "b", ""}));
}

}  // namespace
}  // namespace lmtrain
