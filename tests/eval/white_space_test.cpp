#include "eval/white_space.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(WhiteSpace, IsThatOfPython) {
  // Every character below U+3001 for which str.isspace() is true in Python 3.11.
  const std::string_view spaces =
      "\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
      "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000";
  EXPECT_EQ(without_space_behind(spaces), "");
  EXPECT_EQ(without_space_around(spaces), "");
  // No-break spaces that are none, a byte order mark, a control character.
  for (const std::string_view other : {"\u200b", "\u2060", "\ufeff", "\u180e", "\x1b", "\x7f"}) {
    EXPECT_EQ(without_space_behind(other), other);
    EXPECT_EQ(without_space_around(other), other);
  }
}

TEST(WhiteSpace, IsTakenFromTheEndsAlone) {
  EXPECT_EQ(without_space_behind(" a b \n\u3000 "), " a b");
  EXPECT_EQ(without_space_around("\u2028 \ta b \n\u3000 "), "a b");
  EXPECT_EQ(without_space_behind("é"), "é");
  EXPECT_EQ(without_space_behind(""), "");
  EXPECT_EQ(without_space_around("   "), "");
}

TEST(WhiteSpace, LeavesBytesThatAreNoUtf8) {
  EXPECT_EQ(without_space_behind("a \xa0"), "a \xa0");
  EXPECT_EQ(without_space_behind("\x85\x85"), "\x85\x85");
  EXPECT_EQ(without_space_around("\xe2\x80 "), "\xe2\x80");
}

}  // namespace
}  // namespace lmtrain
