#include "base/foreign_text.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

using namespace std::string_literals;

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr std::string_view kLfsPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

TEST(ForeignText, PointersNameTheToolAndItsCommand) {
  EXPECT_TRUE(says(foreign_text(kLfsPointer), "git-lfs"));
  EXPECT_TRUE(says(foreign_text(kLfsPointer), "git lfs pull"));
  EXPECT_TRUE(says(foreign_text("/annex/objects/SHA256E-s12--abc.txt\n"), "git annex get"));
  EXPECT_TRUE(says(foreign_text("outs:\n- md5: a304afb96060aad90176268345e10355\n"), "dvc pull"));
  EXPECT_TRUE(says(foreign_text("# xet version 0\nfilesize = 5\nhash = 'ab'\n"), "Xet"));
  EXPECT_TRUE(is_file_pointer(kLfsPointer));
  // A page about them is text.
  EXPECT_EQ(foreign_text("The first line is: version https://git-lfs.github.com/spec/v1\n"), "");
  EXPECT_EQ(foreign_text(std::string(kLfsPointer) + std::string(1000, 'x')), "");
}

TEST(ForeignText, WideTextByItsMark) {
  EXPECT_TRUE(says(foreign_text("\xFF\xFEt\0e\0"s), "iconv -f UTF-16 -t UTF-8"));
  EXPECT_TRUE(says(foreign_text("\xFE\xFF\0t\0e"s), "UTF-16"));
  EXPECT_TRUE(says(foreign_text("\xFF\xFE\0\0t\0\0\0"s), "iconv -f UTF-32"));
  EXPECT_TRUE(says(foreign_text("\0\0\xFE\xFF\0\0\0t"s), "UTF-32"));
  EXPECT_TRUE(says(foreign_data("{\0\"\0t\0e\0x\0"s), "UTF-16"));
  EXPECT_TRUE(says(foreign_data("{\0\"\0t\0e\0x\0"s), "iconv -f UTF-16LE "));
  EXPECT_TRUE(says(foreign_data("\0{\0\"\0t\0e\0x"s), "iconv -f UTF-16BE "));
  for (const std::string& text : {""s, "a"s, "\xEF\xBB\xBFtext"s, "\xFE"s})
    EXPECT_EQ(foreign_data(text), "") << text;
}

// In UTF-16 of the order, without a mark.
std::string wide(std::u16string_view text, bool is_big) {
  std::string bytes;
  for (const char16_t unit : text) {
    const char high = static_cast<char>(unit >> 8);
    const char low = static_cast<char>(unit & 0xFF);
    bytes += {is_big ? high : low, is_big ? low : high};
  }
  return bytes;
}

TEST(ForeignText, WideTextWithoutAMark) {
  for (const std::u16string_view text :
       {u"a plain text\r\n", u"Gr\u00fc\u00dfe aus K\u00f6ln, \u201esagte\u201c er",
        u"\u0417\u0434\u0440\u0430\u0432\u0441\u0442\u0432\u0443\u0439 \u043c\u0438\u0440, \u0438 "
        u"\u0442\u044b",
        u"a smile \xD83D\xDE00 and more"}) {
    EXPECT_TRUE(says(foreign_text(wide(text, false)), "iconv -f UTF-16LE "));
    EXPECT_TRUE(says(foreign_text(wide(text, true)), "iconv -f UTF-16BE "));
  }
  // Token ids, text of other kinds, and text with a stray NUL.
  std::u16string ids;
  for (char16_t i = 0; i < 200; ++i) ids += static_cast<char16_t>(32 + 251 * i);
  for (
      const std::string& other :
      {wide(ids, false), "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"s,
       std::string(500, ' '), "some \0 text of a few words and a NUL"s, std::string(40, '\0'),
       "\xD0\x97\xD0\xB4\xD1\x80\xD0\xB0\xD0\xB2 \xD0\x97\xD0\xB4\xD1\x80\xD0\xB0\xD0\xB2 \xD0\x97\xD0\xB4"s})
    EXPECT_EQ(foreign_text(other), "") << other;
}

TEST(ForeignText, AnswersOfServersAreOnlyNamedInPlaceOfData) {
  for (const char* answer :
       {"<!DOCTYPE html>\n<html>", "\n<HTML lang=\"en\">", "Entry not found", "Not Found",
        "Invalid username or password.", "<?xml version=\"1.0\"?><Error>", "{\"error\":\"gated\"}",
        "404: Not Found", "Access to dataset a/b is restricted"}) {
    EXPECT_EQ(foreign_text(answer), "") << answer;
    EXPECT_TRUE(says(foreign_data(answer), "server")) << answer;
  }
}

}  // namespace
}  // namespace lmtrain
