#include "base/printable_output.h"

#include <gtest/gtest.h>

#include <sstream>

namespace lmtrain {
namespace {

TEST(PrintableOutput, SpellsWhatSteersTheTerminalAndKeepsTheRest) {
  std::ostringstream out;
  {
    const PrintableOutput printable(out);
    out << "name\t\x1B[31mred\n"
        << 42 << "\xC2\x9B"
        << "\xFF"
        << "caf\xC3\xA9\n"
        << std::flush;
    EXPECT_EQ(out.str(), "name\t\\033[31mred\n42\\u009b\\377caf\xC3\xA9\n");
    out << '\x07';
  }
  EXPECT_EQ(out.str(), "name\t\\033[31mred\n42\\u009b\\377caf\xC3\xA9\n\\a");
  out << "\x1B";
  EXPECT_TRUE(out.str().ends_with("\x1B")) << "the stream is as it was";
}

TEST(PrintableOutput, ACharacterMayComeInParts) {
  std::ostringstream out;
  const PrintableOutput printable(out);
  for (const char byte : std::string("\xF0\x9F\x98\x80 \xE2\x80\xAE \xE2\x82")) out << byte;
  out << std::flush;
  EXPECT_EQ(out.str(), "\xF0\x9F\x98\x80 \\u202e \\342\\202");
}

TEST(PrintableOutput, JsonStaysWhatItIs) {
  std::ostringstream out;
  const PrintableOutput printable(out);
  out << "{\"a\": \"\x7F\xE2\x80\xAE\"}\n" << std::flush;
  EXPECT_EQ(out.str(), "{\"a\": \"\\u007f\\u202e\"}\n");
}

}  // namespace
}  // namespace lmtrain
