#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace lmtrain {
namespace {

TEST(Utf8, ValidAndInvalid) {
  for (const char* text : {"", "plain", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF",
                           "eight bytes \xF0\x9F\x98\x80 and more"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const char* text : {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80",
                           "\xED\xBF\xBF", "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                           "\xF5\x80\x80\x80", "\xFF", "eight bytes then \xFE."}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
  EXPECT_EQ(valid_utf8_prefix("eight bytes \xC3\xA9 then \xFE."), 20U);
  EXPECT_EQ(valid_utf8_prefix(""), 0U);
}

// Characters of several bytes are checked in another way than one by one.
TEST(Utf8, FindsTheFirstMalformedByteBetweenAnyOthers) {
  constexpr std::string_view kBytes =
      "a\x7F\x80\x8F\x90\x9F\xA0\xBF\xC1\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF4\xF5";
  std::string text;
  for (size_t i = 0; i < kBytes.size() * kBytes.size() * kBytes.size() * kBytes.size(); ++i) {
    text = "\xD0\xB6";
    for (size_t rest = i, k = 0; k < 4; ++k, rest /= kBytes.size())
      text += kBytes[rest % kBytes.size()];
    text += "\xE4\xB8\xADz\xC3\xA9";
    size_t expected = 0;
    char32_t code_point = 0;
    for (std::string_view rest = text; const size_t size = decode_utf8(rest, code_point);
         rest.remove_prefix(size))
      expected += size;
    ASSERT_EQ(valid_utf8_prefix(text), expected) << i;
  }
}

TEST(Utf8, AMalformedByteIsReplacedByItself) {
  const auto replaced = [](std::string_view text) {
    std::string out = "before ";
    append_replacing_malformed(out, text);
    return out;
  };
  EXPECT_EQ(replaced(""), "before ");
  EXPECT_EQ(replaced("caf\xC3\xA9"), "before caf\xC3\xA9");
  EXPECT_EQ(replaced("a\xE2\x82z\xFF"), "before a\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD");
}

TEST(Utf8, DecodesEveryCodePoint) {
  // Encoded by the definition (RFC 3629 section 3).
  const auto encode = [](char32_t c) {
    std::string s;
    const auto put = [&](char32_t byte) {
      s.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
    };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xC0 | (c >> 6)), put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      put(0xE0 | (c >> 12)), put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
    } else {
      put(0xF0 | (c >> 18)), put(0x80 | ((c >> 12) & 0x3F)), put(0x80 | ((c >> 6) & 0x3F)),
          put(0x80 | (c & 0x3F));
    }
    return s;
  };
  for (char32_t c = 0; c <= 0x110000; ++c) {
    const std::string text = encode(c) + "x";
    char32_t decoded = 0;
    const size_t size = decode_utf8(text, decoded);
    if ((c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF) {
      ASSERT_EQ(size, 0U) << static_cast<uint32_t>(c);
    } else {
      ASSERT_EQ(size, text.size() - 1) << static_cast<uint32_t>(c);
      ASSERT_EQ(decoded, c);
    }
  }
}

TEST(Utf8, APrefixCutsNoCharacter) {
  const std::string text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80";  // 1, 2, 3 and 4 bytes
  const size_t wanted[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t most = 0; most < std::size(wanted); ++most)
    EXPECT_EQ(utf8_prefix(text, most), text.substr(0, wanted[most])) << most;
  EXPECT_EQ(utf8_prefix("a\xFF\xFE", 2), "a\xFF");
  EXPECT_EQ(utf8_prefix("\x80\x80\x80", 2), "");
}

TEST(Utf8, ReplacesLikeTheFunctionThatAppends) {
  for (const std::string text : {"", "plain", "a\xFF\xC3", "\xC3\xA4\x80"}) {
    std::string appended;
    append_replacing_malformed(appended, text);
    EXPECT_EQ(replacing_malformed(text), appended);
  }
}

}  // namespace
}  // namespace lmtrain
