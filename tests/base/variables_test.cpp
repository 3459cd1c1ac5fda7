#include "base/variables.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lmtrain {
namespace {

TEST(Variables, AreReplacedByTheEnvironments) {
  ::setenv("LMTRAIN_VARIABLE_TEST", "/a${HOME}", 1);
  const ReplacedVariables replaced =
      replace_variables("${LMTRAIN_VARIABLE_TEST}/$HOME/${LMTRAIN_VARIABLE_TEST}");
  EXPECT_EQ(replaced.text, "/a${HOME}/$HOME//a${HOME}");  // values are taken as they are
  EXPECT_FALSE(replaced.unset);
  EXPECT_FALSE(replaced.not_utf8);
  EXPECT_TRUE(replaced.is_closed);
  EXPECT_EQ(replace_variables("").text, "");
}

TEST(Variables, TheFirstUnsetOneIsNamed) {
  ::unsetenv("LMTRAIN_VARIABLE_TEST");
  EXPECT_EQ(replace_variables("/a/${LMTRAIN_VARIABLE_TEST}/${").unset, "LMTRAIN_VARIABLE_TEST");
  EXPECT_EQ(replace_variables("${}").unset, "");
}

TEST(Variables, AnOpenOneStandsAsItIs) {
  const ReplacedVariables replaced = replace_variables("/a/${HOME");
  EXPECT_FALSE(replaced.is_closed);
  EXPECT_EQ(replaced.text, "/a/${HOME");
}

TEST(Variables, OneWhoseValueIsNoUtf8IsNamed) {
  ::setenv("LMTRAIN_VARIABLE_TEST", "\xFF", 1);
  const ReplacedVariables replaced = replace_variables("/${LMTRAIN_VARIABLE_TEST}/b");
  EXPECT_EQ(replaced.not_utf8, "LMTRAIN_VARIABLE_TEST");
  EXPECT_EQ(replaced.text, "/\xFF/b");
}

}  // namespace
}  // namespace lmtrain
