#include "base/table.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(Table, ABlockHasItsTitleOnceAndNumbersFlushRight) {
  EXPECT_EQ(block("lengths", {{"64", "1.5 s", "half of the run"}, {"1024", "12 s", "the rest"}}),
            "lengths        64  1.5 s  half of the run\n"
            "             1024   12 s  the rest\n");
  EXPECT_EQ(block("steps", {{"a", "7"}, {"b", "1234"}}),
            "steps        a     7\n"
            "             b  1234\n");
  EXPECT_EQ(block("nothing", {}), "");
}

TEST(Table, ALineIsBrokenAfterCommasWhereItIsTooWide) {
  EXPECT_EQ(line("model", "124M parameters, 12 layers"),
            "model        124M parameters, 12 layers\n");
  const std::string part(40, 'x');
  EXPECT_EQ(line("model", part + ", " + part + ", y"),
            "model        " + part + ",\n" +  //
                "             " + part + ", y\n");
  // What has no comma stays whole, and a long title keeps its text behind it.
  EXPECT_EQ(line("m", std::string(100, 'z')), "m            " + std::string(100, 'z') + "\n");
  EXPECT_EQ(line("a very long title", "x"), "a very long titlex\n");
}

}  // namespace
}  // namespace lmtrain
